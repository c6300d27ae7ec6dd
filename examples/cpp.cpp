// cpp.cpp - the same from C++: handles that free themselves in the right order, errors as exceptions.
//
//     c++ cpp.cpp $(pkg-config --cflags --libs weft) -o cpp && ./cpp model.gguf "Once upon"
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <weft.h>

struct closer {
    void operator()(weft_model *p) const { weft_model_close(p); }
    void operator()(weft_tokenizer *p) const { weft_tokenizer_free(p); }
    void operator()(weft_engine *p) const { weft_engine_free(p); }
    void operator()(weft_session *p) const { weft_session_free(p); }
    void operator()(weft_tokens *p) const { weft_tokens_free(p); }
};

template <class T> using handle = std::unique_ptr<T, closer>;

// Calls f(..., &err) and takes what it made.
template <class F, class... A> auto made(F f, A... a)
{
    weft_error err;
    auto *p = f(a..., &err);
    if (!p)
        throw std::runtime_error(err.message);
    return handle<std::remove_reference_t<decltype(*p)>>(p);
}

static std::string generate(const std::string &path, const std::string &text, int n)
{
    auto model = made(weft_model_open, path.c_str(), nullptr);
    auto tokenizer = made(weft_tokenizer_load, path.c_str(), nullptr);
    auto engine = made(weft_engine_new, model.get(), nullptr);
    auto session = made(weft_session_new, engine.get());
    auto prompt = made(weft_tokenizer_encode, tokenizer.get(), text.data(), text.size(), nullptr);
    std::string out = text;
    weft_error err;
    weft_session_eval(session.get(), prompt->ids, prompt->n, &err);
    for (int i = 0; !err.code && i < n; i++) {
        const int32_t id = weft_session_greedy(session.get());
        if (weft_model_is_end(model.get(), id))
            break;
        char piece[256];
        const int64_t size = weft_tokenizer_piece(tokenizer.get(), id, piece, sizeof piece);
        out.append(piece, size <= static_cast<int64_t>(sizeof piece) ? size : 0);
        weft_session_eval(session.get(), &id, 1, &err);
    }
    if (err.code)
        throw std::runtime_error(err.message);
    return out;
}

int main(int argc, char **argv)
{
    try {
        std::cout << generate(argc > 1 ? argv[1] : "model.gguf", argc > 2 ? argv[2] : "Once", 100)
                  << "\n";
    } catch (const std::exception &e) {
        std::cerr << e.what() << "\n";
        return 1;
    }
}
