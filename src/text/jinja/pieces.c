/* pieces.c - the methods that cut a str into pieces and join them: split, splitlines, partition,
 * join. */
#include "text/jinja/methods.h"

#include "text/jinja/chars.h"

static const jval failed = { .kind = V_FAIL };

bool jm_want_str(jrender *r, const char *what, jval v)
{
    if (v.kind == V_STR)
        return true;
    jfail(r, WEFT_EINVAL, "%s: %s; expected a str", what, jkind_name(v));
    return false;
}

bool jm_want_int(jrender *r, const char *what, jval v, int64_t *i)
{
    if (jinteger(v, i))
        return true;
    jfail(r, WEFT_EINVAL, "%s: %s; expected an integer", what, jkind_name(v));
    return false;
}

jval jm_same_kind(jval self, const jstr *s)
{
    return jsafe(jstr_value(s), self.safe && s);
}

static bool add_part(jrender *r, jmany *m, jval self, uint32_t begin, uint32_t end)
{
    const jval part = jm_same_kind(self, jstr_slice(r, self.s, begin, end));
    return !jbad(part) && jmany_add(r, m, part);
}

/* The next word from `at` on; false if there is none. */
static bool next_word(const jstr *s, uint32_t at, uint32_t *begin, uint32_t *end)
{
    uint32_t c, n;
    for (; at < s->n; at += n) {
        n = jstr_point(s, at, &c);
        if (!jchar_is_space(c))
            break;
    }
    *begin = at;
    for (; at < s->n; at += n) {
        n = jstr_point(s, at, &c);
        if (jchar_is_space(c))
            break;
    }
    *end = at;
    return *begin < *end;
}

static jval split_words(jrender *r, jval self, int64_t most)
{
    jmany many = { 0 };
    uint32_t begin, end = 0;
    if (!jcost_bytes(r, 4u * (uint64_t)self.s->n))
        return failed;
    for (; next_word(self.s, end, &begin, &end); most--) {
        if (!add_part(r, &many, self, begin, most == 0 ? self.s->n : end))
            return failed;
        if (most == 0)
            break;
    }
    return jmany_end(r, &many, V_LIST);
}

static void reverse_list(jval list)
{
    jval *item = ((jlist *)list.list)->item;
    for (uint32_t i = 0, k = list.list->n; i + 1 < k; i++) {
        k--;
        const jval swap = item[i];
        item[i] = item[k];
        item[k] = swap;
    }
}

/* The last word before `at`. */
static bool last_word(const jstr *s, uint32_t at, uint32_t *begin, uint32_t *end)
{
    uint32_t c, from;
    bool word = false;
    *end = *begin = at;
    while (at > 0) {
        for (from = at - 1; from > 0 && (s->at[from] & 0xc0) == 0x80;)
            from--;
        jstr_point(s, from, &c);
        const bool space = jchar_is_space(c);
        if (space && word)
            return true;
        if (!space && !word)
            *end = at;
        word = word || !space;
        at = from;
        *begin = at;
    }
    return word;
}

static jval rsplit_words(jrender *r, jval self, int64_t most)
{
    jmany many = { 0 };
    uint32_t begin = self.s->n, end;
    if (!jcost_bytes(r, 4u * (uint64_t)self.s->n))
        return failed;
    for (; last_word(self.s, begin, &begin, &end); most--) {
        if (!add_part(r, &many, self, most == 0 ? 0 : begin, end))
            return failed;
        if (most == 0)
            break;
    }
    const jval list = jmany_end(r, &many, V_LIST);
    if (!jbad(list))
        reverse_list(list);
    return list;
}

static jval split(jrender *r, jval self, jval *arg, bool right)
{
    int64_t most = -1;
    if (arg[1].kind != V_MISSING && !jm_want_int(r, "split", arg[1], &most))
        return failed;
    if (arg[0].kind == V_MISSING || arg[0].kind == V_NONE)
        return right ? rsplit_words(r, self, most < 0 ? INT64_MAX : most)
                     : split_words(r, self, most < 0 ? INT64_MAX : most);
    if (!jm_want_str(r, "split", arg[0]) || !jcost_bytes(r, self.s->n))
        return failed;
    const jstr *by = arg[0].s;
    if (by->n == 0)
        return jfail(r, WEFT_EINVAL, "split: an empty separator; expected another");
    jmany many = { 0 };
    uint32_t begin = 0, end = self.s->n, hit;
    for (; most != 0; most--) {
        hit = right ? jstr_rfind(self.s, by, 0, end) : jstr_find(self.s, by, begin, end);
        if (hit == UINT32_MAX)
            break;
        if (!jcost(r, 1) || (right ? !add_part(r, &many, self, hit + by->n, end)
                                   : !add_part(r, &many, self, begin, hit)))
            return failed;
        *(right ? &end : &begin) = right ? hit : hit + by->n;
    }
    if (!add_part(r, &many, self, begin, end))
        return failed;
    const jval list = jmany_end(r, &many, V_LIST);
    if (right && !jbad(list))
        reverse_list(list);
    return list;
}
jval jm_split(jrender *r, jval self, jval *arg)
{
    return split(r, self, arg, false);
}
jval jm_rsplit(jrender *r, jval self, jval *arg)
{
    return split(r, self, arg, true);
}

static bool ends_line(uint32_t c)
{
    return (c >= 10 && c <= 13) || (c >= 28 && c <= 30) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

jval jm_splitlines(jrender *r, jval self, jval *arg)
{
    const jstr *s = self.s;
    int64_t keep = 0;
    jmany many = { 0 };
    uint32_t begin = 0;
    if (!jcost_bytes(r, 4u * (uint64_t)s->n) ||
        (arg[0].kind != V_MISSING && !jm_want_int(r, "splitlines", arg[0], &keep)))
        return failed;
    for (uint32_t at = 0, n, c; at < s->n; at += n) {
        n = jstr_point(s, at, &c);
        if (!ends_line(c))
            continue;
        const uint32_t stop = at;
        if (c == '\r' && at + 1 < s->n && s->at[at + 1] == '\n')
            n = 2;
        if (!add_part(r, &many, self, begin, keep ? at + n : stop))
            return failed;
        begin = at + n;
    }
    if (begin < s->n && !add_part(r, &many, self, begin, s->n))
        return failed;
    return jmany_end(r, &many, V_LIST);
}

static jval partition(jrender *r, jval self, jval by, bool right)
{
    if (!jm_want_str(r, "partition", by))
        return failed;
    if (by.s->n == 0)
        return jfail(r, WEFT_EINVAL, "partition: an empty separator; expected another");
    const uint32_t n = self.s->n;
    const uint32_t hit = right ? jstr_rfind(self.s, by.s, 0, n) : jstr_find(self.s, by.s, 0, n);
    const bool found = hit != UINT32_MAX;
    const uint32_t cut = found ? hit : right ? 0 : n, next = found ? hit + by.s->n : cut;
    jmany many = { 0 };
    if (!jcost_bytes(r, n) || !add_part(r, &many, self, 0, cut) ||
        !add_part(r, &many, self, cut, next) || !add_part(r, &many, self, next, n))
        return failed;
    return jmany_end(r, &many, V_TUPLE);
}
jval jm_partition(jrender *r, jval self, jval *arg)
{
    return partition(r, self, arg[0], false);
}
jval jm_rpartition(jrender *r, jval self, jval *arg)
{
    return partition(r, self, arg[0], true);
}

jval jm_join(jrender *r, jval self, jval *arg)
{
    jiter it;
    jbuild b;
    jbuild_begin(&b, r);
    if (!jiter_begin(r, &it, arg[0]))
        return failed;
    for (bool first = true;; first = false) {
        const jval item = jiter_next(r, &it);
        if (jbad(item))
            return item;
        if (item.kind == V_MISSING)
            return jsafe(jbuild_value(&b), self.safe);
        if (!self.safe && !jm_want_str(r, "join", item))
            return failed;
        const jstr *s = self.safe ? jescape(r, item) : item.s;
        if (!s)
            return failed;
        if (!first)
            jbuild_str(&b, self.s);
        jbuild_str(&b, s);
    }
}
