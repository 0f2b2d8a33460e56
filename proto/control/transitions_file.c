#include "control/transitions_file.h"

#include "base/buffer.h"
#include "base/log.h"
#include "control/config/small_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Twice what the longest reasons take, each byte of them as an escape. */
#define FILE_MOST ((size_t)2 * KW_TRANSITIONS * (6 * KW_TRANSITION_REASON + 256))

static void write_ring(struct kw_transitions_file *file)
{
	json_t *list = kw_transitions_json(file->ring, SIZE_MAX);
	char *text = json_dumps(list, JSON_INDENT(1));
	int failed = kw_small_file_replace(file->path, text, strlen(text), KW_FILE_UNSYNCED);

	if (failed && failed != file->failed)
		kw_log_warn("control",
			"the history of states is not kept over a restart: %s cannot be written: "
			"%s (see control.history_file)",
			file->path, strerror(failed));
	file->failed = failed;
	free(text);
	json_decref(list);
}

static void on_timer(uv_timer_t *timer)
{
	write_ring(timer->data);
}

static void read_ring(struct kw_transitions_file *file)
{
	struct kw_buffer text = {0};
	struct kw_error error;
	json_t *list;

	if (access(file->path, F_OK))
		return;
	if (kw_small_file_read(
		    file->path, FILE_MOST, KW_FILE_ANY, "the history file", &text, &error)) {
		kw_log_warn("control", "the history of states begins anew: %s", error.text);
		kw_buffer_close(&text);
		return;
	}
	list = json_loadb((const char *)kw_buffer_bytes(&text), kw_buffer_length(&text), 0, NULL);
	if (!kw_transitions_take(file->ring, list))
		kw_log_warn("control",
			"the history of states begins anew: %s has no such history, and is "
			"replaced by the next change",
			file->path);
	json_decref(list);
	kw_buffer_close(&text);
}

void kw_transitions_file_open(struct kw_transitions_file *file, uv_loop_t *loop, const char *path,
	struct kw_transitions *ring)
{
	*file = (struct kw_transitions_file){.ring = ring};
	uv_timer_init(loop, &file->timer);
	uv_unref((uv_handle_t *)&file->timer);
	file->timer.data = file;
	if (strlen(path) >= sizeof file->path)
		return;
	strcpy(file->path, path);
	if (*path)
		read_ring(file);
}

void kw_transitions_file_changed(struct kw_transitions_file *file)
{
	if (*file->path && !uv_is_active((uv_handle_t *)&file->timer))
		uv_timer_start(&file->timer, on_timer, KW_TRANSITIONS_WRITE_MS, 0);
}

void kw_transitions_file_close(struct kw_transitions_file *file)
{
	if (uv_is_active((uv_handle_t *)&file->timer))
		write_ring(file);
	uv_close((uv_handle_t *)&file->timer, NULL);
}
