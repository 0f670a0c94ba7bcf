/* Reads the JSON body of a request from standard input, and prints the whole answer as the server would send it.
 *   ./request MODEL.gguf chat|complete|embed|rerank|template [OPTIONS] < request.json
 */
#include <cairn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_input(void) {
  size_t size = 0, room = 1 << 16;
  char *text = malloc(room);
  while (text != NULL) {
    const size_t got = fread(text + size, 1, room - size - 1, stdin);
    size += got;
    if (got == 0) break;
    if (size + 1 == room) text = realloc(text, room *= 2);
  }
  if (text != NULL) text[size] = '\0';
  return text;
}

static char *answer(cairn_stream *stream, cairn_error **error) {
  char *body = NULL;
  if (stream != NULL && cairn_stream_run(stream, NULL, NULL, error) == CAIRN_OK)
    body = cairn_stream_response(stream, NULL, error);
  cairn_stream_close(stream);
  return body;
}

/* [[...], ...] in a form that is read back as the same numbers. */
static int print_vectors(cairn_model *model, const char *request, cairn_error **error) {
  size_t rows = 0, dimensions = 0;
  float *vectors = cairn_embed(model, request, &rows, &dimensions, error);
  if (vectors == NULL) return 0;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < dimensions; ++i)
      printf("%s%.9g", i > 0 ? "," : row > 0 ? "],[" : "[[", (double)vectors[row * dimensions + i]);
  }
  printf("%s\n", rows > 0 ? "]]" : "[]");
  cairn_free(vectors);
  return 1;
}

int main(int argc, char **argv) {
  cairn_error *error = NULL;
  char *body = NULL;
  int printed = 0;
  if (argc < 3) {
    fprintf(stderr, "usage: request MODEL chat|complete|embed|rerank|template [OPTIONS] < request.json\n");
    return 2;
  }
  char *request = read_input();
  cairn_model *model = cairn_model_open(argv[1], argc > 3 ? argv[3] : NULL, &error);
  if (model != NULL && request != NULL) {
    if (strcmp(argv[2], "chat") == 0) body = answer(cairn_chat(model, request, &error), &error);
    if (strcmp(argv[2], "complete") == 0) body = answer(cairn_complete(model, request, &error), &error);
    if (strcmp(argv[2], "rerank") == 0) body = cairn_rerank(model, request, NULL, &error);
    if (strcmp(argv[2], "template") == 0) body = cairn_apply_template(model, request, NULL, &error);
    if (strcmp(argv[2], "embed") == 0) printed = print_vectors(model, request, &error);
  }
  if (body != NULL) printf("%s\n", body);
  if (error != NULL) fprintf(stderr, "%s\n", cairn_error_json(error));
  const int failed = body == NULL && !printed;
  cairn_free(body);
  cairn_error_free(error);
  cairn_model_close(model);
  free(request);
  return failed;
}
