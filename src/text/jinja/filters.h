/* filters.h - filters that walk through a list, for the table of filters. */
#ifndef WEFT_TEXT_JINJA_FILTERS_H
#define WEFT_TEXT_JINJA_FILTERS_H

#include "text/jinja/value.h"

jfilter_fn jfilter_dictsort, jfilter_first, jfilter_items, jfilter_join, jfilter_last, jfilter_list,
    jfilter_map, jfilter_max, jfilter_min, jfilter_reject, jfilter_rejectattr, jfilter_reverse,
    jfilter_select, jfilter_selectattr, jfilter_sort, jfilter_sum, jfilter_unique;

#endif
