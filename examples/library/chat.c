/* One question to a model, whose answer is printed as it comes.
 *   cc chat.c $(pkg-config --cflags --libs cairn) -o chat && ./chat MODEL.gguf "Who are you?"
 */
#include <cairn.h>
#include <stdio.h>

static int print_event(const cairn_event *event, void *user) {
  (void)user;
  if (event->type == CAIRN_EVENT_TEXT) fwrite(event->text, 1, event->text_size, stdout);
  if (event->type == CAIRN_EVENT_FINISH) printf("\n[%s]\n", event->text);
  fflush(stdout);
  return 0; /* anything else cancels the request */
}

static int failed(cairn_error *error) {
  fprintf(stderr, "chat: %s\n", cairn_error_message(error));
  cairn_error_free(error);
  return 1;
}

int main(int argc, char **argv) {
  cairn_error *error = NULL;
  char request[4096];
  if (argc != 3) {
    fprintf(stderr, "usage: chat MODEL QUESTION\n");
    return 2;
  }
  cairn_model *model = cairn_model_open(argv[1], "{\"ctx\": 1024}", &error);
  if (model == NULL) return failed(error);
  /* A real program has a JSON library, which escapes what the text may contain. */
  snprintf(request, sizeof request,
           "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}], \"max_tokens\": 60, \"seed\": 1}", argv[2]);
  cairn_stream *stream = cairn_chat(model, request, &error);
  if (stream == NULL) return failed(error);
  if (cairn_stream_run(stream, print_event, NULL, &error) != CAIRN_OK) return failed(error);
  cairn_stream_close(stream);
  cairn_model_close(model);
  return 0;
}
