/* latent.c - multi-head latent attention.
 *
 * The keys and values of all heads are computed from one short latent per row, next to one rotary
 * key that all heads share:
 *
 *     c = norm(A x)    k_h = [Bk_h c, rope(a x)]    v_h = Bv_h c    q_h = [.., rope(..)]
 *
 * Inference never computes k_h and v_h. Since q . (Bk c) = (Bk^T q) . c, it maps the query to the
 * latent space instead. All heads attend to the same rows [c, k_rope], which is all that the cache
 * holds, and Bv is applied to the result:
 *
 *     score = (Bk_h^T q_h) . c + q_rope . k_rope        y_h = Bv_h sum_j p_j c_j
 *
 * Training computes keys and values: with many queries per sequence that takes fewer
 * multiplications. Both agree up to rounding. */
#include "models/latent.h"

static tensor *turn(run *r, tensor *x, const rope_table *t)
{
    return t ? rope(r, x, t) : x;
}

static tensor *attend_naive(run *r, const latent *m, const latent_layer *w, int l, tensor *q,
                            tensor *c, tensor *k_rope)
{
    tensor *k = linear_heads(r, c, w->k_b, &m->to_k, "attn_k"); /* [N, H P] */
    tensor *v = linear_heads(r, c, w->v_b, &m->to_v, "attn_v"); /* [N, H E] */
    k = join_heads(r, k, k_rope, &m->key, "attn_k.join");       /* [N, H (P + S)] */
    return attention(r, q, k, v, &m->naive, l);
}

static tensor *attend_absorbed(run *r, const latent *m, const latent_layer *w, int l, tensor *q,
                               tensor *c, tensor *k_rope)
{
    tensor *to = linear_heads(r, q, w->k_b, &m->to_latent, "attn_q.latent"); /* [N, H R] */
    q = join_heads(r, to, q, &m->query, "attn_q.join");                      /* [N, H (R + S)] */
    c = join_heads(r, c, k_rope, &m->row, "latent.join");                    /* [N, R + S] */
    tensor *h = attention(r, q, c, NULL, &m->absorbed, l);                   /* [N, H R] */
    return linear_heads(r, h, w->v_b, &m->from_latent, "attention");         /* [N, H E] */
}

/* For a trace: the keys and values that inference does without. */
static void show_naive(run *r, const latent *m, const latent_layer *w, tensor *c, tensor *k_rope)
{
    const aside was = aside_begin(r);
    tensor *k = linear_heads(r, c, w->k_b, &m->to_k, "attn_k"); /* [N, H P] */
    linear_heads(r, c, w->v_b, &m->to_v, "attn_v");             /* [N, H E] */
    join_heads(r, k, k_rope, &m->key, "attn_k.join");           /* [N, H (P + S)] */
    aside_end(r, was);
}

tensor *latent_attend(run *r, const latent *m, const latent_layer *w, int l, tensor *q, tensor *h)
{
    q = turn(r, q, m->rope_q);
    tensor *both = linear(r, h, &w->kv_a); /* [N, R + S] */
    tensor *c = slice(r, both, "latent", 0, m->d_latent);
    tensor *k_rope = slice(r, both, "k_rope", m->d_latent, m->d_rope);
    c = rmsnorm(r, c, w->kv_a_norm, LATENT_EPS);
    k_rope = turn(r, k_rope, m->rope_k);
    if (r->show.open)
        show_naive(r, m, w, c, k_rope);
    return is_learning(r) ? attend_naive(r, m, w, l, q, c, k_rope)
                          : attend_absorbed(r, m, w, l, q, c, k_rope);
}

/* ---- from the file --------------------------------------------------------------------------- */

/* YaRN also scales the scores, by the square of its magnitude for all elements of a head. */
void latent_bind_rope(bind *b, latent *m, const latent_sizes *n)
{
    rope_spec s = { .n_rot = n->S, .d_head = n->S };
    m->rope_k = bind_rope(b, &s);
    const double all = s.scaling == ROPE_YARN && s.mscale_all != 0
                           ? yarn_magnitude(s.factor, s.mscale_all)
                           : 1;
    m->naive.scale = (real)(all * all / sqrt((double)(n->P + n->S)));
    s.d_head = n->P + n->S;
    s.skip = n->P;
    if (b->status == WEFT_OK && !(m->rope_q = rope_new(&s, b->m->n_ctx, &b->m->store, b->err)))
        b->status = WEFT_ENOMEM;
}

void latent_layout(bind *b, latent *m, const latent_sizes *n)
{
    const int64_t H = b->m->n_head, P = n->P, S = n->S, E = n->E, R = n->R, both = P + E;
    const bool split = n->split;
    const real scale = m->rope_q ? m->naive.scale : (real)(1 / sqrt((double)(P + S)));
    m->d_latent = R;
    m->d_rope = S;
    m->key = (join_map){ H, P, 0, 0, S };
    m->row = (join_map){ 1, R, 0, 0, S };
    m->query = (join_map){ H, R, P, P + S, S };
    m->to_k = split ? (head_map){ H, 0, 0, 0, R, R, P, true }
                    : (head_map){ H, 0, 0, 0, both, R, P, false };
    m->to_latent = split ? (head_map){ H, 0, P + S, 0, R, P, R, false }
                         : (head_map){ H, 0, P + S, 0, both, P, R, true };
    m->to_v = (head_map){ H, 0, 0, split ? 0 : P, split ? E : both, R, E, false };
    m->from_latent = m->to_v;
    m->from_latent.x_pitch = R;
    m->naive = (attn){ .kind = ATTN_CAUSAL,
                       .n_head = H,
                       .n_head_kv = H,
                       .d_key = P + S,
                       .d_value = E,
                       .scale = scale };
    m->absorbed = (attn){ .kind = ATTN_CAUSAL,
                          .n_head = H,
                          .n_head_kv = 1,
                          .d_key = R + S,
                          .d_value = R,
                          .scale = scale };
    b->m->stream[0] = (stream_spec){ "latent", R + S };
    b->m->n_stream = 1;
}

void latent_bind_layer(bind *b, latent_layer *w, const latent_sizes *n)
{
    const int64_t D = b->m->d_model, H = b->m->n_head;
    w->kv_a = bind_linear(b, "attn_kv_a_mqa", n->R + n->S, D, NO_BIAS);
    w->kv_a_norm = bind_norm(b, "attn_kv_a_norm", n->R, false).w;
    if (n->split) {
        w->k_b = bind_parts(b, "attn_k_b", H, n->R, n->P);
        w->v_b = bind_parts(b, "attn_v_b", H, n->E, n->R);
    } else {
        w->k_b = w->v_b = bind_matrix(b, "attn_kv_b", H * (n->P + n->E), n->R);
    }
}
