#pragma once
#include <microhttpd.h>
#include <stdint.h>
#include <sys/socket.h>
#include <netinet/in.h>

/* MHD_start_daemon is variadic. The daemon has no thread: the loop watches its epoll descriptor and calls MHD_run. */
static inline struct MHD_Daemon *ff_mhd_start(
    uint16_t port, const struct sockaddr *address, MHD_AccessHandlerCallback handler, void *handler_context,
    MHD_NotifyConnectionCallback connected, void *connected_context,
    MHD_RequestCompletedCallback completed, void *completed_context) {
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, port, NULL, NULL, handler, handler_context,
        MHD_OPTION_SOCK_ADDR, address, MHD_OPTION_NOTIFY_CONNECTION, connected, connected_context,
        MHD_OPTION_NOTIFY_COMPLETED, completed, completed_context,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_END);
}
static inline int ff_mhd_epoll_descriptor(struct MHD_Daemon *daemon) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info ? info->epoll_fd : -1;
}
static inline int ff_mhd_port(struct MHD_Daemon *daemon) {
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : -1;
}
static const ssize_t ff_mhd_end_of_stream = MHD_CONTENT_READER_END_OF_STREAM;
static const enum MHD_ValueKind ff_mhd_header_kind = MHD_HEADER_KIND;
static const enum MHD_ConnectionNotificationCode ff_mhd_started = MHD_CONNECTION_NOTIFY_STARTED;
