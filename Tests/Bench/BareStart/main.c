// What opening a clip and decoding its first picture costs with libavformat and libavcodec alone: the yardstick of
// `firstframe bench start`. One file, several times; prints the milliseconds of each, one a line.
//
//   bare-start FILE TIMES PAUSE
//
// PAUSE is in milliseconds, before each: whoever swipes comes to a machine that was idle, with caches that went cold.
//
// As a careful program does it: one thread, no probing where the container tells all, and a drain after the key frame, so
// that a codec with reordering does not wait for the packets that follow.
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

// The time of one start, or -1.
static double start(const char *path)
{
    double begin = now(), end = -1;
    AVFormatContext *format = NULL;
    AVCodecContext *decoder = NULL;
    AVPacket *packet = av_packet_alloc();
    AVFrame *frame = av_frame_alloc();
    if (avformat_open_input(&format, path, NULL, NULL) < 0) goto out;
    int isComplete = !strncmp(format->iformat->name, "mov", 3);
    for (unsigned i = 0; i < format->nb_streams; i++) {
        AVCodecParameters *track = format->streams[i]->codecpar;
        if (track->codec_type == AVMEDIA_TYPE_VIDEO && (!track->width || !track->extradata_size)) isComplete = 0;
    }
    if (!isComplete && avformat_find_stream_info(format, NULL) < 0) goto out;
    int track = av_find_best_stream(format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
    if (track < 0) goto out;
    const AVCodec *codec = avcodec_find_decoder(format->streams[track]->codecpar->codec_id);
    if (!codec || !(decoder = avcodec_alloc_context3(codec))) goto out;
    avcodec_parameters_to_context(decoder, format->streams[track]->codecpar);
    decoder->thread_count = 1;
    if (avcodec_open2(decoder, codec, NULL) < 0) goto out;
    while (end < 0) {
        int code = av_read_frame(format, packet);
        if (code >= 0 && packet->stream_index != track) {
            av_packet_unref(packet);
            continue;
        }
        int isKey = code >= 0 && packet->flags & AV_PKT_FLAG_KEY;
        avcodec_send_packet(decoder, code >= 0 ? packet : NULL);
        av_packet_unref(packet);
        if (isKey) avcodec_send_packet(decoder, NULL);
        if (avcodec_receive_frame(decoder, frame) >= 0) {
            end = now();
        } else if (isKey) {
            avcodec_flush_buffers(decoder);
        } else if (code < 0) {
            break;
        }
    }
out:
    av_frame_free(&frame);
    av_packet_free(&packet);
    avcodec_free_context(&decoder);
    avformat_close_input(&format);
    return end < 0 ? -1 : end - begin;
}

int main(int count, char **words)
{
    if (count != 4) {
        fprintf(stderr, "bare-start FILE TIMES PAUSE\n");
        return 2;
    }
    av_log_set_level(AV_LOG_QUIET);
    long pause = atol(words[3]);
    struct timespec idle = { pause / 1000, pause % 1000 * 1000000 };
    for (int times = atoi(words[2]); times > 0; times--) {
        nanosleep(&idle, NULL);
        double time = start(words[1]);
        if (time < 0) return 1;
        printf("%.3f\n", time);
    }
    return 0;
}
