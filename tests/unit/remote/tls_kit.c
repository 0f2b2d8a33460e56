#include "tls_kit.h"

#include "remote/server.h"

#include <stdio.h>
#include <stdlib.h>

struct tls_kit kit;

void kit_make(void)
{
	const char *here = "DNS:localhost,IP:127.0.0.1";

	kit.ca = certificate_make(&(struct certificate_plan){.cn = "a CA", .is_ca = true});
	kit.other_ca = certificate_make(&(struct certificate_plan){.cn = "another", .is_ca = true});
	kit.proxy = certificate_make(
		&(struct certificate_plan){.cn = "proxy", .san = here, .issuer = &kit.ca});
	kit.edge = certificate_make(&(struct certificate_plan){
		.cn = "x", .san = "URI:keywake:edge-1", .issuer = &kit.ca});
	kit.other_edge = certificate_make(&(struct certificate_plan){
		.cn = "x", .san = "URI:keywake:edge-2", .issuer = &kit.ca});
	kit.expired = certificate_make(&(struct certificate_plan){.cn = "x",
		.san = "URI:keywake:edge-1",
		.from_days = -20,
		.to_days = -10,
		.issuer = &kit.ca});
	kit.stranger = certificate_make(&(struct certificate_plan){
		.cn = "x", .san = "URI:keywake:edge-1", .issuer = &kit.other_ca});
}

void kit_free(void)
{
	struct certificate *all[] = {&kit.ca, &kit.other_ca, &kit.proxy, &kit.edge, &kit.other_edge,
		&kit.expired, &kit.stranger};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		certificate_free(all[i]);
}

static struct kw_tls_pem pem(const char *file, const char *text)
{
	return (struct kw_tls_pem){file, text ? kw_slice_text(text) : kw_slice(NULL, 0)};
}

static struct kw_tls_context *make(const struct kw_tls_options *options)
{
	struct kw_error error;
	struct kw_tls_context *context = kw_tls_context_new(options, &error);

	if (!context) {
		printf("%s\n", error.text);
		abort();
	}
	return context;
}

struct kw_tls_context *kit_server(const struct certificate *ca, const char *crl)
{
	return make(&(struct kw_tls_options){
		.role = KW_TLS_SERVER,
		.ca = pem("ca.pem", ca->pem),
		.cert = pem("proxy.pem", kit.proxy.pem),
		.key = pem("proxy.key", kit.proxy.key_pem),
		.crl = pem("revoked.pem", crl),
		.verify = true,
		.kernel = true,
		.terms = &kw_server_tls_terms,
	});
}

struct kw_tls_context *kit_client(const struct certificate *ca, const struct certificate *shown)
{
	return make(&(struct kw_tls_options){
		.role = KW_TLS_CLIENT,
		.ca = pem("ca.pem", ca->pem),
		.cert = pem("edge.pem", shown ? shown->pem : NULL),
		.key = pem("edge.key", shown ? shown->key_pem : NULL),
		.verify = true,
		.terms = &kw_remote_tls_terms,
	});
}
