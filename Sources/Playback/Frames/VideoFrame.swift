/// How a frame's samples lie in memory.
public enum PixelFormat: String, Hashable, Sendable, CaseIterable {
    /// Planes Y, U, V; 8 bits; U and V at half width and height.
    case i420
    /// Planes Y, U, V; 8 bits; U and V at half width.
    case i422
    /// Planes Y, U, V; 8 bits; U and V at full size.
    case i444
    /// Planes Y, U, V; 10 bits in little-endian 16-bit words; U and V at half width and height.
    case i420p10
    /// Planes Y and interleaved UV; 8 bits; UV at half width and height.
    case nv12
    /// One plane of bytes red, green, blue, alpha.
    case rgba
    /// One plane of bytes blue, green, red, alpha.
    case bgra
}

/// How samples become colours.
public struct ColorDescription: Hashable, Sendable {
    /// The matrix between YUV and RGB.
    public enum Matrix: Hashable, Sendable {
        /// Standard definition.
        case bt601
        /// High definition.
        case bt709
        /// Ultra-high definition, non-constant luminance.
        case bt2020
    }
    /// The matrix between YUV and RGB.
    public var matrix: Matrix
    /// How light becomes numbers.
    public enum Transfer: Hashable, Sendable {
        /// The curves of standard dynamic range, which screens take as they are.
        case sdr
        /// Perceptual quantizer (SMPTE ST 2084), as HDR10 has it: without tone mapping it looks dull on other screens.
        case pq
        /// Hybrid log-gamma (ARIB STD-B67).
        case hlg
    }
    /// Whether black is 0 and white 255, rather than 16 and 235.
    public var isFullRange: Bool
    /// How light becomes numbers.
    public var transfer: Transfer
    /// Whether it has a higher dynamic range than a screen shows by itself.
    public var isHDR: Bool { transfer != .sdr }
    package init(matrix: Matrix, isFullRange: Bool, transfer: Transfer = .sdr) {
        (self.matrix, self.isFullRange, self.transfer) = (matrix, isFullRange, transfer)
    }
}

/// How a picture is to be turned for showing: first flipped, then turned.
public struct Orientation: Hashable, Sendable {
    /// Degrees clockwise: 0, 90, 180 or 270.
    public var rotation = 0
    /// Whether top and bottom change places before it is turned.
    public var isFlipped = false
    /// As it is.
    public static let upright = Orientation()
    package init(rotation: Int = 0, isFlipped: Bool = false) {
        (self.rotation, self.isFlipped) = (rotation, isFlipped)
    }
    /// Whether width and height change places.
    public var isSideways: Bool { rotation % 180 != 0 }
}

/// Width of a sample by its height.
public struct PixelAspect: Hashable, Sendable {
    /// Above 0.
    public let width: Int
    /// Above 0.
    public let height: Int
    /// As high as wide.
    public static let square = PixelAspect(width: 1, height: 1)
    package init(width: Int, height: Int) { (self.width, self.height) = (width, height) }
}

/// One decoded picture. A value: it stays as it is however long the host keeps it; the memory is shared, not copied.
public struct VideoFrame: Sendable {
    /// One plane's layout.
    public struct Plane: Hashable, Sendable {
        /// Bytes from one row to the next.
        public let stride: Int
        /// Bytes of one row that carry samples.
        public let rowBytes: Int
        /// Rows.
        public let rows: Int
        package init(stride: Int, rowBytes: Int, rows: Int) {
            (self.stride, self.rowBytes, self.rows) = (stride, rowBytes, rows)
        }
    }

    /// Samples a row.
    public let width: Int
    /// Rows.
    public let height: Int
    /// How the samples lie in memory.
    public let pixelFormat: PixelFormat
    /// How samples become colours.
    public let color: ColorDescription
    /// When the frame is shown, from the start of the media.
    public let presentationTime: Duration
    /// How long it is shown; zero when the file doesn't say.
    public let duration: Duration
    /// How the picture is to be turned for showing.
    public let orientation: Orientation
    /// The shape of its samples.
    public let pixelAspect: PixelAspect
    /// Layout of each plane.
    public let planes: [Plane]
    package let storage: any FrameStorage

    package init(
        width: Int, height: Int, pixelFormat: PixelFormat, color: ColorDescription, presentationTime: Duration,
        duration: Duration, orientation: Orientation = .upright, pixelAspect: PixelAspect = .square, planes: [Plane],
        storage: any FrameStorage
    ) {
        (self.width, self.height, self.pixelFormat, self.color) = (width, height, pixelFormat, color)
        (self.presentationTime, self.duration) = (presentationTime, duration)
        (self.orientation, self.pixelAspect) = (orientation, pixelAspect)
        (self.planes, self.storage) = (planes, storage)
    }

    /// The same picture at another time.
    package func shifted(by time: Duration) -> VideoFrame {
        guard time != .zero else { return self }
        return VideoFrame(
            width: width, height: height, pixelFormat: pixelFormat, color: color,
            presentationTime: presentationTime + time, duration: duration, orientation: orientation,
            pixelAspect: pixelAspect, planes: planes, storage: storage)
    }

    /// Width and height of the picture as it is seen, in square pixels of a screen: turned, and with the shape of its
    /// samples, for which it is made wider or higher, never smaller.
    public var displaySize: (width: Int, height: Int) {
        let shape = Double(pixelAspect.width) / Double(pixelAspect.height)
        let wide = shape > 1 ? Int((Double(width) * shape).rounded()) : width
        let high = shape < 1 ? Int((Double(height) / shape).rounded()) : height
        return orientation.isSideways ? (high, wide) : (wide, high)
    }

    /// Lends one plane's bytes, `stride * (rows - 1) + rowBytes` of them, for the time of `body`.
    public func withPlane<Result>(_ index: Int, _ body: (UnsafeRawBufferPointer) throws -> Result) rethrows -> Result {
        let plane = planes[index]
        let start = storage.address(ofPlane: index)
        return try withExtendedLifetime(storage) {
            try body(UnsafeRawBufferPointer(start: start, count: plane.stride * (plane.rows - 1) + plane.rowBytes))
        }
    }

    /// The samples of all planes, one after the other and without padding.
    public func packedBytes() -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(planes.reduce(0) { $0 + $1.rowBytes * $1.rows })
        for (index, plane) in planes.enumerated() {
            withPlane(index) { memory in
                for row in 0..<plane.rows {
                    bytes.append(contentsOf: memory[row * plane.stride..<row * plane.stride + plane.rowBytes])
                }
            }
        }
        return bytes
    }
}

/// Owns a frame's memory until the last value that shows it goes away.
package protocol FrameStorage: AnyObject, Sendable {
    func address(ofPlane index: Int) -> UnsafeRawPointer?
}

/// A piece of sound: interleaved 32-bit float samples.
public struct AudioBuffer: Sendable {
    /// Interleaved: the first sample of each channel, then the second of each.
    public let samples: [Float]
    /// Channels, at least 1.
    public let channelCount: Int
    /// Samples a second and channel.
    public let sampleRate: Int
    /// When the first sample is heard, from the start of the media.
    public let presentationTime: Duration
    /// How much faster than usual it is played, at the same pitch.
    public let rate: Double
    package init(
        samples: [Float], channelCount: Int, sampleRate: Int, presentationTime: Duration, rate: Double = 1
    ) {
        (self.samples, self.channelCount, self.sampleRate) = (samples, channelCount, sampleRate)
        (self.presentationTime, self.rate) = (presentationTime, rate)
    }
    /// The same sound at another time, and as loud as `volume` says.
    package func shifted(by time: Duration = .zero, volume: Float = 1) -> AudioBuffer {
        guard time != .zero || volume != 1 else { return self }
        return AudioBuffer(
            samples: volume == 1 ? samples : samples.map { $0 * volume }, channelCount: channelCount,
            sampleRate: sampleRate, presentationTime: presentationTime + time, rate: rate)
    }
    /// Samples of each channel.
    public var frameCount: Int { samples.count / max(1, channelCount) }
    /// How much of the media it is; it sounds for `duration / rate`.
    public var duration: Duration { .seconds(Double(frameCount) / Double(max(1, sampleRate)) * rate) }
}
