/* random_grammar.h - random grammars, and what they mean said a second time.
 *
 * A grammar is a few trees. It can be written as GBNF, and asked directly whether a text is in its
 * language or can be continued to one: for every rule and every place, the set of places where it
 * may end, computed until nothing changes. Slow and simple; texts are short and ASCII. */
#ifndef WEFT_TESTS_RANDOM_GRAMMAR_H
#define WEFT_TESTS_RANDOM_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRAMMAR_RULES 5
#define GRAMMAR_NODES 96
#define GRAMMAR_WORD  40 /* bytes of a text, at most */

typedef struct grammar_node {
    enum { LITERAL, CLASS, RULE, SEQUENCE, CHOICE, REPEAT } kind;
    char text[6];    /* LITERAL; CLASS: its members */
    bool negated;    /* CLASS */
    int rule;        /* RULE */
    int child[3], n; /* SEQUENCE, CHOICE; REPEAT: the first */
    int min, max;    /* REPEAT; max -1: without end */
} grammar_node;

typedef struct random_grammar {
    grammar_node node[GRAMMAR_NODES];
    int n_node;
    int rule[GRAMMAR_RULES]; /* root, a, b, ... */
    const char *letters;
    bool finishes[GRAMMAR_RULES];
    uint64_t ends[GRAMMAR_RULES][GRAMMAR_WORD + 1]; /* bit i: may end before byte i; OPEN */
    uint64_t key, draws;
} random_grammar;

/* letters: the bytes that it is about; none of them is special in a class. */
void random_grammar_make(random_grammar *g, uint64_t key, const char *letters);

/* As GBNF, 0-terminated. */
void random_grammar_write(const random_grammar *g, char *to, size_t size);

/* Does root match the text? *open: does it match one that begins with the text? */
bool random_grammar_matches(random_grammar *g, const char *text, int n, bool *open);

/* Below n; a function of the key and of how often it was called. */
uint32_t random_grammar_draw(random_grammar *g, uint32_t n);

#endif
