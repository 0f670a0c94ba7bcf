// Several questions at once: the engine answers them in one batch. Each line of the arguments behind the model is one.
//   c++ -std=c++17 many.cpp $(pkg-config --cflags --libs cairn) -pthread -o many && ./many MODEL.gguf "Who?" "Where?"
#include <cairn.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Free {
  void operator()(cairn_model* model) const { cairn_model_close(model); }
  void operator()(cairn_stream* stream) const { cairn_stream_close(stream); }
  void operator()(char* text) const { cairn_free(text); }
};
template <class T>
using Handle = std::unique_ptr<T, Free>;

/// What a function has returned, or its error as an exception.
template <class T>
Handle<T> checked(T* value, cairn_error* error) {
  if (value != nullptr) return Handle<T>(value);
  const std::string message = cairn_error_message(error);
  cairn_error_free(error);
  throw std::runtime_error(message);
}

Handle<cairn_stream> ask(cairn_model* model, const std::string& question) {
  const std::string request =
      R"({"messages": [{"role": "user", "content": ")" + question + R"("}], "max_tokens": 40, "temperature": 0})";
  cairn_error* error = nullptr;
  cairn_stream* const stream = cairn_chat(model, request.c_str(), &error);
  return checked(stream, error);
}

std::string answer_of(cairn_stream* stream) {
  std::string text;
  cairn_event event;
  cairn_error* error = nullptr;
  while (cairn_stream_next(stream, -1, &event, &error) == CAIRN_NEXT_EVENT) {
    if (event.type == CAIRN_EVENT_TEXT) text.append(event.text, event.text_size);
    if (event.type == CAIRN_EVENT_END) return text;
  }
  text = cairn_error_message(error);
  cairn_error_free(error);
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: many MODEL QUESTION...\n");
    return 2;
  }
  cairn_error* error = nullptr;
  cairn_model* const opened = cairn_model_open(argv[1], R"({"ctx": 1024})", &error);
  const Handle<cairn_model> model = checked(opened, error);
  std::vector<std::string> answers(static_cast<size_t>(argc - 2));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < answers.size(); ++i)
    threads.emplace_back([&, i] { answers[i] = answer_of(ask(model.get(), argv[i + 2]).get()); });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < answers.size(); ++i) std::printf("%s\n  %s\n", argv[i + 2], answers[i].c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "many: %s\n", error.what());
  return 1;
}
