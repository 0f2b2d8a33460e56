/*
 * Whose configuration is it? Pure.
 */
#ifndef KW_CTL_DOCTOR_KIND_H
#define KW_CTL_DOCTOR_KIND_H

#include <jansson.h>

/*
 * "keywake-proxy", "keywake-agent" or "keywake-gateway". config: the file's content, whose keys
 * tell it; NULL: it cannot be read, and the name of the file tells it. That counts, too, if the
 * file includes others, which can have these keys. NULL: neither does.
 */
const char *ctl_doctor_kind(const json_t *config, const char *file);

/* The program of this name, with or without "keywake-"; NULL: there is none. */
const char *ctl_doctor_program(const char *name);

#endif
