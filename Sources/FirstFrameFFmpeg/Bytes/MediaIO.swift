internal import CFFmpeg
import FeedVocabulary
import Glibc
import ResourceLoading

/// What libavformat reads one file by: bytes of the loader, or of memory. Decode thread only.
final class MediaIO {
    enum Bytes {
        case reader(ByteReader)
        case memory([UInt8])
        case encrypted(CipherReader)
    }
    let bytes: Bytes
    /// Where the next read begins, in the file.
    private(set) var offset: Int64
    /// Where the file begins for libavformat: after a large tag, which it would read whole.
    private let base: Int64
    /// Told when bytes are missing for good.
    private let failed: (LoadError) -> Void
    private(set) var context: UnsafeMutablePointer<AVIOContext>?

    /// Bytes that libavformat reads at a time; smaller costs calls, larger costs nothing as short reads are allowed.
    private static let bufferSize: Int32 = 64 * 1024

    init(_ bytes: Bytes, from base: Int64 = 0, failed: @escaping (LoadError) -> Void) throws(FFmpegError) {
        (self.bytes, self.base, offset, self.failed) = (bytes, base, base, failed)
        guard let memory = av_malloc(Int(Self.bufferSize)) else { throw FFmpegError.outOfMemory("av_malloc") }
        context = avio_alloc_context(
            memory.assumingMemoryBound(to: UInt8.self), Self.bufferSize, 0, Unmanaged.passUnretained(self).toOpaque(),
            { Unmanaged<MediaIO>.fromOpaque($0!).takeUnretainedValue().read(into: $1!, count: Int($2)) }, nil,
            { Unmanaged<MediaIO>.fromOpaque($0!).takeUnretainedValue().seek(to: $1, whence: $2) })
        guard context != nil else {
            av_free(memory)
            throw FFmpegError.outOfMemory("avio_alloc_context")
        }
    }
    deinit {
        guard context != nil else { return }
        av_freep(&context!.pointee.buffer)  // libavformat may have replaced ours
        avio_context_free(&context)
    }

    /// Opens the file as media; closed by `avformat_close_input`, before this goes away.
    ///
    /// - Parameters:
    ///   - format: libavformat's name of it; `nil` finds it by its content.
    ///   - options: Of the demuxer.
    ///   - prepare: Sets what has to be set before.
    func openMedia(
        as format: String? = nil, options: [String: String] = [:],
        _ prepare: (UnsafeMutablePointer<AVFormatContext>) -> Void = { _ in }
    ) throws(FFmpegError) -> UnsafeMutablePointer<AVFormatContext> {
        var media = avformat_alloc_context()
        guard let allocated = media else { throw .outOfMemory("avformat_alloc_context") }
        allocated.pointee.pb = context
        allocated.pointee.flags |= AVFMT_FLAG_CUSTOM_IO
        // A reference inside the file must not reach anything else, and some demuxers open sockets and files without asking.
        allocated.pointee.io_open = { _, _, _, _, _ in ff_error_denied }
        var dictionary: OpaquePointer?
        defer { av_dict_free(&dictionary) }
        av_dict_set(&dictionary, "protocol_whitelist", "none", 0)
        for (name, value) in options { av_dict_set(&dictionary, name, value, 0) }
        prepare(allocated)
        let (name, input) = (format.map { "file:\($0)" }, format.flatMap { av_find_input_format($0) })
        // Frees what was allocated when it fails.
        try check(avformat_open_input(&media, name, input, &dictionary), "avformat_open_input")
        return allocated
    }

    private var length: Int64? {
        switch bytes {
        case .reader(let reader): reader.length
        case .memory(let bytes): Int64(bytes.count)
        case .encrypted(let reader): reader.length
        }
    }

    private func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) -> Int32 {
        let target = UnsafeMutableRawBufferPointer(start: buffer, count: count)
        do throws(LoadError) {
            let got: Int
            switch bytes {
            case .reader(let reader): got = try reader.readBlocking(at: offset, into: target)
            case .encrypted(let reader): got = try reader.readBlocking(at: offset, into: target)
            case .memory(let bytes):
                let rest = bytes.dropFirst(Int(clamping: offset)).prefix(count)
                target.copyBytes(from: rest)
                got = rest.count
            }
            offset += Int64(got)
            return got == 0 ? ff_error_eof : Int32(got)
        } catch {
            failed(error)
            return ff_error_io
        }
    }

    private func seek(to target: Int64, whence: Int32) -> Int64 {
        let length = length.map { $0 - base }
        let destination: Int64? =
            switch whence & ~ff_seek_force {
            case ff_seek_size: length ?? -1
            case SEEK_SET: target
            case SEEK_CUR: offset - base + target
            case SEEK_END: length.map { $0 + target }
            default: nil
            }
        guard let destination else { return Int64(ff_error_invalid) }
        if whence & ~ff_seek_force == ff_seek_size { return destination }
        guard destination >= 0, destination <= Int64.max - base else { return Int64(ff_error_invalid) }
        offset = base + destination
        return destination
    }
}
