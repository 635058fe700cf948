import CSDL2
import FirstFrame
import FirstFrameFFmpeg

/// A window that shows the newest frame, as large as it fits. The main thread's, as SDL demands.
@MainActor final class Screen: VideoSink {
    private let window: OpaquePointer
    private let renderer: OpaquePointer
    private var texture: OpaquePointer?
    private var textureSize = (width: 0, height: 0)
    private var frame: VideoFrame?

    init(title: String, width: Int32, height: Int32) throws(ViewerError) {
        let flags = SDL_WINDOW_RESIZABLE.rawValue | SDL_WINDOW_ALLOW_HIGHDPI.rawValue
        guard
            let window = SDL_CreateWindow(
                title, Int32(bitPattern: ff_window_centered), Int32(bitPattern: ff_window_centered), width, height,
                flags)
        else { throw ViewerError("there is no window") }
        guard
            let renderer = SDL_CreateRenderer(window, -1, SDL_RENDERER_PRESENTVSYNC.rawValue)
                ?? SDL_CreateRenderer(window, -1, SDL_RENDERER_SOFTWARE.rawValue)
        else { throw ViewerError("the window can't be drawn to") }
        (self.window, self.renderer) = (window, renderer)
        SDL_SetYUVConversionMode(SDL_YUV_CONVERSION_AUTOMATIC)
        draw()
    }

    func setTitle(_ title: String) { SDL_SetWindowTitle(window, title) }
    func toggleFullscreen() {
        let isFull = SDL_GetWindowFlags(window) & SDL_WINDOW_FULLSCREEN_DESKTOP.rawValue != 0
        SDL_SetWindowFullscreen(window, isFull ? 0 : SDL_WINDOW_FULLSCREEN_DESKTOP.rawValue)
    }

    /// Frames come in planes of YUV: the engine was asked for them.
    @MainActor func show(_ frame: VideoFrame) async {
        // Tone mapping takes longer than a frame lasts on a small machine: such clips play at fewer frames a second.
        guard let frame = try? frame.color.isHDR ? frame.toneMapped() : frame.converted(to: .i420) else { return }
        self.frame = frame
        if textureSize != (frame.width, frame.height) {
            if let texture { SDL_DestroyTexture(texture) }
            texture = SDL_CreateTexture(
                renderer, ff_format_iyuv, Int32(SDL_TEXTUREACCESS_STREAMING.rawValue), Int32(frame.width),
                Int32(frame.height))
            textureSize = (frame.width, frame.height)
        }
        frame.withPlane(0) { luma in
            frame.withPlane(1) { blue in
                frame.withPlane(2) { red in
                    func bytes(_ plane: UnsafeRawBufferPointer) -> UnsafePointer<UInt8>? {
                        plane.baseAddress?.assumingMemoryBound(to: UInt8.self)
                    }
                    let strides = frame.planes.map { Int32($0.stride) }
                    SDL_UpdateYUVTexture(
                        texture, nil, bytes(luma), strides[0], bytes(blue), strides[1], bytes(red), strides[2])
                }
            }
        }
        draw()
    }

    /// Draws what is shown once more, as after the window has changed.
    func draw() {
        SDL_SetRenderDrawColor(renderer, 0, 0, 0, 255)
        SDL_RenderClear(renderer)
        if let frame, let texture {
            var (width, height): (Int32, Int32) = (0, 0)
            SDL_GetRendererOutputSize(renderer, &width, &height)
            let size = frame.displaySize
            let scale = min(Double(width) / Double(size.width), Double(height) / Double(size.height))
            var (wide, high) = (Int32(Double(size.width) * scale), Int32(Double(size.height) * scale))
            // SDL turns about the middle of where the picture would be unturned.
            if frame.orientation.isSideways { swap(&wide, &high) }
            var place = SDL_Rect(x: (width - wide) / 2, y: (height - high) / 2, w: wide, h: high)
            SDL_RenderCopyEx(
                renderer, texture, nil, &place, Double(frame.orientation.rotation), nil,
                frame.orientation.isFlipped ? SDL_FLIP_VERTICAL : SDL_FLIP_NONE)
        }
        SDL_RenderPresent(renderer)
    }
}

/// What SDL refused.
struct ViewerError: Error, CustomStringConvertible {
    let description: String
    init(_ text: String) { description = "\(text): \(String(cString: SDL_GetError()))" }
}
