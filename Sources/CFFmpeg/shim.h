#pragma once
#include <libavformat/avformat.h>
#include <libavcodec/avcodec.h>
#include <libavfilter/avfilter.h>
#include <libavfilter/buffersink.h>
#include <libavfilter/buffersrc.h>
#include <libavutil/aes.h>
#include <libavutil/avutil.h>
#include <libavutil/display.h>
#include <libavutil/hwcontext.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswresample/swresample.h>
#include <libswscale/swscale.h>

/* Error codes and constants that are function-like macros or casts in C. */
static const int ff_error_eof = AVERROR_EOF;
static const int ff_error_again = AVERROR(EAGAIN);
static const int ff_error_exit = AVERROR_EXIT;
static const int ff_error_io = AVERROR(EIO);
static const int ff_error_no_memory = AVERROR(ENOMEM);
static const int ff_error_denied = AVERROR(EPERM);
static const int ff_error_invalid = AVERROR_INVALIDDATA;
static const int64_t ff_no_timestamp = AV_NOPTS_VALUE;
static const int ff_seek_size = AVSEEK_SIZE;
static const int ff_seek_force = AVSEEK_FORCE;

/* One entry of a stream's index; `size` and `flags` are bit fields. */
static inline int ff_index_entry(AVStream *stream, int index, int64_t *position, int64_t *timestamp, int *size, int *is_key) {
    const AVIndexEntry *entry = avformat_index_get_entry(stream, index);
    if (!entry) return 0;
    *position = entry->pos;
    *timestamp = entry->timestamp;
    *size = entry->size;
    *is_key = (entry->flags & AVINDEX_KEYFRAME) != 0;
    return 1;
}
/* Degrees to turn clockwise for showing, from the stream's display matrix, and whether top and bottom change places before
   that; 0 where there is none. */
static inline double ff_stream_rotation(const AVStream *stream, int *is_flipped) {
    const int32_t *matrix = (const int32_t *)av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, NULL);
    *is_flipped = matrix && (double)matrix[0] * matrix[4] - (double)matrix[1] * matrix[3] < 0;
    return matrix ? -av_display_rotation_get(matrix) : 0;
}
typedef int (*ff_read_fn)(void *context, uint8_t *buffer, int size);
typedef int64_t (*ff_seek_fn)(void *context, int64_t offset, int whence);
