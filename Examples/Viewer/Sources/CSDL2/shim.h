#pragma once
#include <SDL2/SDL.h>

/* Constants that are casts or expressions in C. */
static const Uint32 ff_window_centered = SDL_WINDOWPOS_CENTERED;
static const Uint32 ff_format_iyuv = SDL_PIXELFORMAT_IYUV;
static const SDL_AudioFormat ff_audio_f32 = AUDIO_F32SYS;
