/*
 * The catalog's rows, in the order of their names; a command comes just before its subcommands.
 * Known to catalog.c only.
 */
#ifndef KW_AGENT_GATEWAY_SESSION_CATALOG_ROWS_H
#define KW_AGENT_GATEWAY_SESSION_CATALOG_ROWS_H

#include "catalog.h"

extern const struct kw_catalog_row kw_catalog_rows[];
extern const size_t kw_catalog_row_count;

#endif
