/* view_checks.c - the identities of checks.h on the page. */
#include "explain/checks.h"
#include "explain/views.h"

void view_checks(const subject *s, document *d)
{
    identity all[MAX_IDENTITY];
    const int n = checks_run(s, all);
    doc_list(d, "identities");
    for (int i = 0; i < n; i++) {
        doc_object(d, NULL);
        doc_text(d, "name", all[i].name);
        doc_text(d, "says", all[i].says);
        if (all[i].why_not) {
            doc_text(d, "why_not", all[i].why_not);
        } else {
            doc_bool(d, "holds", all[i].holds);
            doc_real(d, "error", all[i].error);
            doc_real(d, "tolerance", all[i].tolerance);
            doc_int(d, "compared", all[i].n);
        }
        doc_end(d);
    }
    doc_end(d);
}
