internal import CFFmpeg
import EventLoop
import FeedVocabulary
import Playback
import ResourceLoading

/// libavformat on a reader of the loader: it never opens the network, a file or a nested URL. Decode thread only.
final class Demuxer {
    private var context: UnsafeMutablePointer<AVFormatContext>?
    private var io: UnsafeMutablePointer<AVIOContext>?
    private let reader: ByteReader
    private let name: String
    /// Where the next read begins, in the file.
    private var offset: Int64 = 0
    /// Where the file begins for libavformat: after a large tag, which it would read whole.
    private var base: Int64 = 0
    private var unprobedStart: Duration?
    private var isFirstVideoAwaited = false
    /// Whether a picture that belongs to a sound file counts as its video.
    private let takesCover: Bool
    /// Whether the video is the picture of a sound file: one frame, and no sound.
    private(set) var isCover = false
    private(set) var loadError: LoadError?
    private(set) var video: UnsafeMutablePointer<AVStream>?
    private(set) var audio: UnsafeMutablePointer<AVStream>?

    /// Bytes that libavformat reads at a time; smaller costs calls, larger costs nothing as short reads are allowed.
    private static let bufferSize: Int32 = 64 * 1024
    /// What probing a file may read where the container's head doesn't tell enough, and how much media time.
    private static let probeBytes: Int64 = 1024 * 1024
    private static let probeMicroseconds: Int64 = 500_000

    /// - Parameter takesCover: Whether a sound file's picture is wanted, and not its sound.
    init(_ input: MediaInput, takesCover: Bool = false) throws {
        (reader, name, self.takesCover) = (input.reader, input.name, takesCover)
        do {
            if !takesCover { try skipTag() }
            try open()
        } catch {
            close()
            throw error
        }
    }
    deinit { close() }

    private func open() throws {
        guard let memory = av_malloc(Int(Self.bufferSize)) else { throw FFmpegError(code: -12, call: "av_malloc") }
        io = avio_alloc_context(
            memory.assumingMemoryBound(to: UInt8.self), Self.bufferSize, 0, Unmanaged.passUnretained(self).toOpaque(),
            { Unmanaged<Demuxer>.fromOpaque($0!).takeUnretainedValue().read(into: $1!, count: Int($2)) }, nil,
            { Unmanaged<Demuxer>.fromOpaque($0!).takeUnretainedValue().seek(to: $1, whence: $2) })
        context = avformat_alloc_context()
        guard let context, let io else { throw FFmpegError(code: -12, call: "avformat_alloc_context") }
        context.pointee.pb = io
        context.pointee.flags |= AVFMT_FLAG_CUSTOM_IO
        // A playlist or a reference inside the file must not reach anything else.
        context.pointee.io_open = { _, _, _, _, _ in ff_error_denied }
        context.pointee.probesize = Self.probeBytes
        context.pointee.max_analyze_duration = Self.probeMicroseconds

        var opened: UnsafeMutablePointer<AVFormatContext>? = context
        let code = avformat_open_input(&opened, nil, nil, nil)
        if code < 0 {
            self.context = nil  // freed by the failed call
            if let loadError { throw loadError }
            throw PlaybackError.notMedia(
                name: name, reason: FFmpegError(code: code, call: "avformat_open_input").description)
        }
        chooseTracks()
        if needsProbe {
            let code = avformat_find_stream_info(context, nil)
            if code < 0, let loadError { throw loadError }
            chooseTracks()
        }
        guard video != nil || audio != nil else { throw loadError ?? PlaybackError.noPlayableTrack(name: name) }
        findStart()
        for stream in streams where stream != video && stream != audio { stream.pointee.discard = AVDISCARD_ALL }
    }

    /// An ID3v2 tag (id3.org, v2.4 §3.1) with a picture in it would be read to its end before the first sound.
    private func skipTag() throws {
        var head = [UInt8](repeating: 0, count: 10)
        let count = try head.withUnsafeMutableBytes { target in
            var count = 0
            while count < target.count {
                let got = try reader.readBlocking(
                    at: Int64(count), into: UnsafeMutableRawBufferPointer(rebasing: target[count...]))
                if got == 0 { break }
                count += got
            }
            return count
        }
        guard count == 10, head[..<3].elementsEqual("ID3".utf8), head[6...].allSatisfy({ $0 < 0x80 }) else { return }
        let size = head[6...].reduce(Int64(0)) { $0 << 7 | Int64($1) } + (head[5] & 0x10 == 0 ? 10 : 20)
        guard size > Self.largestReadTag, reader.length.map({ size < $0 }) ?? true else { return }
        (base, offset) = (size, size)
    }
    /// A tag of fewer bytes is read: the request for what follows it would take longer.
    private static let largestReadTag: Int64 = 64 * 1024

    private func close() {
        if context != nil { avformat_close_input(&context) }
        if io != nil {
            av_freep(&io!.pointee.buffer)  // libavformat may have replaced ours
            avio_context_free(&io)
        }
    }

    private var streams: [UnsafeMutablePointer<AVStream>] {
        guard let context else { return [] }
        return (0..<Int(context.pointee.nb_streams)).compactMap { context.pointee.streams[$0] }
    }

    private func chooseTracks() {
        func first(_ kind: AVMediaType, isCover: Bool = false) -> UnsafeMutablePointer<AVStream>? {
            streams.first { stream in
                stream.pointee.codecpar.pointee.codec_type == kind
                    && (stream.pointee.disposition & AV_DISPOSITION_ATTACHED_PIC != 0) == isCover
                    && avcodec_find_decoder(stream.pointee.codecpar.pointee.codec_id) != nil
            }
        }
        video = first(AVMEDIA_TYPE_VIDEO)  // a cover is not the video
        isCover = false
        audio = first(AVMEDIA_TYPE_AUDIO)
        if video == nil, takesCover, let cover = first(AVMEDIA_TYPE_VIDEO, isCover: true) {
            (video, audio, isCover) = (cover, nil, true)
        }
    }

    /// MP4 has complete parameters, the reordering depth included, in its head; others need some packets.
    private var needsProbe: Bool {
        guard let format = context?.pointee.iformat, String(cString: format.pointee.name).hasPrefix("mov") else {
            return true
        }
        if video == nil && audio == nil { return true }
        if let parameters = video?.pointee.codecpar.pointee {
            let needsHeader = [AV_CODEC_ID_H264, AV_CODEC_ID_HEVC, AV_CODEC_ID_AV1].contains(parameters.codec_id)
            if parameters.width <= 0 || parameters.height <= 0 || (needsHeader && parameters.extradata_size == 0) {
                return true
            }
        }
        if let parameters = audio?.pointee.codecpar.pointee,
            parameters.sample_rate <= 0 || parameters.ch_layout.nb_channels <= 0
        {
            return true
        }
        return false
    }

    // MARK: Bytes

    private func read(into buffer: UnsafeMutablePointer<UInt8>, count: Int) -> Int32 {
        do throws(LoadError) {
            let got = try reader.readBlocking(
                at: offset, into: UnsafeMutableRawBufferPointer(start: buffer, count: count))
            offset += Int64(got)
            return got == 0 ? ff_error_eof : Int32(got)
        } catch {
            loadError = error
            return ff_error_io
        }
    }

    private func seek(to target: Int64, whence: Int32) -> Int64 {
        let length = reader.length.map { $0 - base }
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

    /// Where the next read of the demuxer begins.
    var readOffset: Int64 { offset }

    // MARK: Media

    /// The next packet of a played track into `packet`; false at the end of the file.
    ///
    /// - Throws: ``LoadError`` when bytes are missing for good, ``FFmpegError`` otherwise.
    func read(_ packet: UnsafeMutablePointer<AVPacket>) throws -> Bool {
        guard let context else { return false }
        let code = av_read_frame(context, packet)
        if code >= 0 {
            note(packet)
            return true
        }
        if let loadError { throw loadError }
        if code == ff_error_eof { return false }
        throw FFmpegError(code: code, call: "av_read_frame")
    }

    /// Goes to the key frame at or before `time`. What went wrong before is forgotten.
    func seek(to time: Duration) throws {
        guard let context else { return }
        if isFirstVideoAwaited { try readToFirstVideo() }  // times count from it
        loadError = nil
        if let bytes = context.pointee.pb { (bytes.pointee.error, bytes.pointee.eof_reached) = (0, 0) }
        let place = (time + startTime).wholeNanoseconds / 1_000
        let code = av_seek_frame(context, -1, place, AVSEEK_FLAG_BACKWARD)
        if code < 0, let loadError { throw loadError }
        try check(code, "av_seek_frame")
    }

    /// The file's own time at which its media begins, as far as it tells; everybody else counts from there, as the
    /// `ffmpeg` command does.
    private var startTime: Duration {
        guard let start = context?.pointee.start_time, start != ff_no_timestamp else { return unprobedStart ?? .zero }
        return .microseconds(start)
    }

    /// The start of media that was not probed, as the tracks themselves tell it.
    private func findStart() {
        for stream in [video, audio].compactMap({ $0 }) {
            if stream.pointee.start_time != ff_no_timestamp {
                begins(at: duration(stream.pointee.start_time, stream.pointee.time_base))
            } else if stream == audio, let first = samples(of: stream).first {
                begins(at: duration(first.timestamp, stream.pointee.time_base))
            } else if stream == video {
                isFirstVideoAwaited = true
            }
        }
    }
    private func begins(at start: Duration) { unprobedStart = min(unprobedStart ?? start, start) }

    private func readToFirstVideo() throws {
        let packet = ReusedPacket()
        guard let pointer = packet.pointer else { return }
        for _ in 0..<Self.mostPacketsBeforeVideo where isFirstVideoAwaited {
            guard try read(pointer) else { break }
            av_packet_unref(pointer)
        }
        isFirstVideoAwaited = false
    }
    private static let mostPacketsBeforeVideo = 2_000

    /// A fragmented file's pictures begin where the first of them says.
    private func note(_ packet: UnsafeMutablePointer<AVPacket>) {
        guard isFirstVideoAwaited, let video, packet.pointee.stream_index == video.pointee.index else { return }
        isFirstVideoAwaited = false
        if packet.pointee.pts != ff_no_timestamp {
            begins(at: duration(packet.pointee.pts, video.pointee.time_base))
        }
    }

    /// A stamp of the file as media time, which begins at zero.
    func time(_ stamp: Int64, _ base: AVRational) -> Duration { duration(stamp, base) - startTime }

    var description: MediaDescription {
        var description = MediaDescription()
        if let duration = context?.pointee.duration, duration != ff_no_timestamp, duration > 0 {
            description.duration = .microseconds(duration)
        }
        if let stream = video {
            description.width = Int(stream.pointee.codecpar.pointee.width)
            description.height = Int(stream.pointee.codecpar.pointee.height)
            description.rotation = Self.rotation(of: stream)
            description.videoCodec = String(cString: avcodec_get_name(stream.pointee.codecpar.pointee.codec_id))
        }
        if let stream = audio {
            description.audioCodec = String(cString: avcodec_get_name(stream.pointee.codecpar.pointee.codec_id))
        }
        if let stream = video ?? audio { description.firstFrameEnd = firstKeyEnd(of: stream) }
        return description
    }

    static func rotation(of stream: UnsafeMutablePointer<AVStream>) -> Int {
        let angle = ff_stream_rotation(stream)
        guard angle.isFinite else { return 0 }
        let quarterTurns = Int((angle / 90).rounded()) % 4
        return (quarterTurns + 4) % 4 * 90
    }

    private func firstKeyEnd(of stream: UnsafeMutablePointer<AVStream>) -> Int64? {
        for sample in samples(of: stream) where sample.isKey && sample.position >= 0 && sample.size >= 0 {
            return sample.position + Int64(sample.size)
        }
        return nil
    }

    private struct RawSample { var position: Int64 = 0, timestamp: Int64 = 0, size: Int32 = 0, isKey = false }

    private func samples(of stream: UnsafeMutablePointer<AVStream>) -> some Collection<RawSample> {
        (0..<avformat_index_get_entries_count(stream)).lazy.map { entry in
            var sample = RawSample()
            var isKey: Int32 = 0
            _ = ff_index_entry(stream, entry, &sample.position, &sample.timestamp, &sample.size, &isKey)
            sample.isKey = isKey != 0
            // As the file has it, whose first bytes may have been jumped over; numbers of a file may be anything.
            let (position, overflow) = sample.position.addingReportingOverflow(self.base)
            sample.position = overflow || position > Int64.max - Int64(Int32.max) ? -1 : position
            return sample
        }
    }

    /// The index of the played tracks. Only MP4's lists every sample; the others' are for seeking.
    func index() -> MediaIndex {
        var index = MediaIndex()
        index.duration = description.duration
        index.length = reader.length
        guard let format = context?.pointee.iformat, String(cString: format.pointee.name).hasPrefix("mov") else {
            return index
        }
        index.tracks = [video, audio].compactMap { $0 }.map { stream in
            samples(of: stream).compactMap { sample in
                guard sample.position >= 0, sample.size >= 0 else { return nil }
                return MediaIndex.Sample(
                    time: time(sample.timestamp, stream.pointee.time_base),
                    range: ByteRange(offset: sample.position, saturatingLength: Int64(sample.size)))
            }
        }
        return index
    }
}
