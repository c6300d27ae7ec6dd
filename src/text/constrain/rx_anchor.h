/* rx_anchor.h - ^ and $ inside of patterns. */
#ifndef WEFT_TEXT_CONSTRAIN_RX_ANCHOR_H
#define WEFT_TEXT_CONSTRAIN_RX_ANCHOR_H

#include "text/constrain/rx_pool.h"

#define RX_BEGIN 0xFE /* the bytes that stand for ^ and $ */
#define RX_END   0xFF

/* What a pattern with these bytes matches. `any` is every text; `search`: it may match anywhere. */
rx rx_place_anchors(rx_pool *p, rx a, bool search, rx any);

#endif
