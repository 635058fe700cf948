#pragma once
#include <curl/curl.h>
#include <netinet/in.h>

/* curl_easy_setopt, curl_easy_getinfo and curl_multi_setopt are variadic; these are their typed doors. */
typedef size_t (*ff_curl_data_fn)(char *data, size_t size, size_t count, void *context);
typedef int (*ff_curl_socket_fn)(CURL *easy, curl_socket_t socket, int what, void *context, void *socket_context);
typedef int (*ff_curl_timer_fn)(CURLM *multi, long timeout_ms, void *context);
typedef int (*ff_curl_close_fn)(void *context, curl_socket_t socket);

static inline CURLcode ff_easy_long(CURL *easy, CURLoption option, long value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ff_easy_string(CURL *easy, CURLoption option, const char *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ff_easy_pointer(CURL *easy, CURLoption option, void *value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ff_easy_offset(CURL *easy, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ff_easy_data(CURL *easy, CURLoption option, ff_curl_data_fn value) {
    return curl_easy_setopt(easy, option, value);
}
static inline CURLcode ff_easy_close(CURL *easy, ff_curl_close_fn value) {
    return curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, value);
}
/* The 4 or 16 bytes of an internet address; NULL for one of another family. */
static inline const void *ff_address_bytes(const struct curl_sockaddr *address, int *count) {
    *count = address->family == AF_INET ? 4 : 16;
    if (address->family == AF_INET) return &((const struct sockaddr_in *)&address->addr)->sin_addr;
    return address->family == AF_INET6 ? &((const struct sockaddr_in6 *)&address->addr)->sin6_addr : NULL;
}
/* NULL for libcurl's own way to open a socket. */
static inline CURLcode ff_easy_open(CURL *easy, curl_opensocket_callback value) {
    return curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, value);
}
static inline CURLcode ff_easy_get_long(CURL *easy, CURLINFO info, long *value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLcode ff_easy_get_offset(CURL *easy, CURLINFO info, curl_off_t *value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLcode ff_easy_get_string(CURL *easy, CURLINFO info, char **value) {
    return curl_easy_getinfo(easy, info, value);
}
static inline CURLMcode ff_multi_long(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
static inline CURLMcode ff_multi_socket(CURLM *multi, ff_curl_socket_fn function, void *context) {
    CURLMcode code = curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, function);
    return code != CURLM_OK ? code : curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, context);
}
static inline CURLMcode ff_multi_timer(CURLM *multi, ff_curl_timer_fn function, void *context) {
    CURLMcode code = curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, function);
    return code != CURLM_OK ? code : curl_multi_setopt(multi, CURLMOPT_TIMERDATA, context);
}
/* The message's payload is a union; a finished transfer's result is one member of it. */
// Macros with casts, which Swift can't see.
static const long ff_curl_auth_digest = CURLAUTH_DIGEST;
static const long ff_curl_auth_as_asked = CURLAUTH_BASIC | CURLAUTH_DIGEST;
static inline CURLcode ff_message_result(const CURLMsg *message) { return message->data.result; }
static const size_t ff_curl_pause_write = CURL_WRITEFUNC_PAUSE;
