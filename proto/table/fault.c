#include "table/fault.h"

struct kw_fault_hook kw_fault_hook;
