internal import CFFmpeg
import EventLoop
import FeedStrategy
import FeedVocabulary
import Playback
import ResourceLoading

/// libavformat on readers of the loader: it never opens the network or a file by itself. Decode thread only.
final class Demuxer {
    private var context: UnsafeMutablePointer<AVFormatContext>?
    private var io: MediaIO?
    private let reader: ByteReader
    private let name: String
    /// Where the file begins for libavformat: after a large tag, which it would read whole.
    private var base: Int64 = 0
    /// What an HLS playlist refers to, and what libavformat has open of it.
    private var playlist: PlaylistFiles?
    private var files: [UnsafeMutablePointer<AVIOContext>: MediaIO] = [:]
    private var unprobedStart: Duration?
    private var isFirstVideoAwaited = false
    /// When a playlist begins by its parts' own time, which goes on however often it is opened.
    private var playlistStart: Duration?
    /// Whether a picture that belongs to a sound file counts as its video.
    private let takesCover: Bool
    /// Whether the video is the picture of a sound file: one frame, and no sound.
    private(set) var isCover = false
    private(set) var loadError: LoadError?
    private(set) var video: UnsafeMutablePointer<AVStream>?
    private(set) var audio: UnsafeMutablePointer<AVStream>?
    private(set) var subtitles: UnsafeMutablePointer<AVStream>?
    private let languages: [String]
    /// Tracks that were asked for by their numbers.
    private var chosen: [MediaTrack.Kind: Int32] = [:]

    /// What probing a file may read where the container's head doesn't tell enough, and how much media time.
    private static let probeBytes: Int64 = 1024 * 1024
    private static let probeMicroseconds: Int64 = 500_000

    /// - Parameters:
    ///   - languages: Of sound, the most wanted first.
    ///   - takesCover: Whether a sound file's picture is wanted, and not its sound.
    init(_ input: MediaInput, languages: [String] = [], takesCover: Bool = false) throws {
        (reader, name, self.languages, self.takesCover) = (input.reader, input.name, languages, takesCover)
        do {
            let head = try reader.readAllBlocking(count: Self.headOfTag)
            if HLSPlaylist.begins(head) {
                playlist = try PlaylistFiles(reader, name: name)
            } else if !takesCover {
                skipTag(head)
            }
            try open()
        } catch {
            close()
            throw error
        }
    }
    deinit { close() }

    private func open() throws {
        try openContext(at: .zero)
        guard video != nil || audio != nil else { throw loadError ?? PlaybackError.noPlayableTrack(name: name) }
        findStart()
        if playlist != nil { playlistStart = startTime }
    }

    /// - Parameter time: Where in a playlist it begins.
    private func openContext(at time: Duration) throws {
        close()
        let io = try MediaIO(playlist.map { .memory($0.text(from: time)) } ?? .reader(reader), from: base) {
            [unowned self] in loadError = $0
        }
        self.io = io
        do throws(FFmpegError) {
            let (format, options) = playlist == nil ? (nil, [:]) : ("hls", Self.playlistOptions)
            context = try io.openMedia(as: format, options: options) { context in
                context.pointee.probesize = Self.probeBytes
                context.pointee.max_analyze_duration = Self.probeMicroseconds
                if playlist != nil { openFiles(by: context) }
            }
        } catch {
            throw loadError ?? PlaybackError.notMedia(name: name, reason: error.description) as any Error
        }
        chooseTracks()
        if needsProbe {
            let code = avformat_find_stream_info(context, nil)
            if code < 0, let loadError { throw loadError }
            chooseTracks()
        }
        discardOthers()
    }

    /// What a playlist refers to is opened and closed by this object.
    private func openFiles(by context: UnsafeMutablePointer<AVFormatContext>) {
        context.pointee.opaque = Unmanaged.passUnretained(self).toOpaque()
        context.pointee.io_open = { context, opened, name, _, options in
            let demuxer = Unmanaged<Demuxer>.fromOpaque(context!.pointee.opaque).takeUnretainedValue()
            return demuxer.openFile(String(cString: name!), options?.pointee, &opened!.pointee)
        }
        context.pointee.io_close2 = { context, opened in
            guard let opened else { return 0 }
            Unmanaged<Demuxer>.fromOpaque(context!.pointee.opaque).takeUnretainedValue().files[opened] = nil
            return 0
        }
    }

    private func discardOthers() {
        for stream in streams {
            let isPlayed = stream == video || stream == audio || stream == subtitles
            stream.pointee.discard = isPlayed ? AVDISCARD_DEFAULT : AVDISCARD_ALL
        }
    }

    /// Plays another track of a kind from the next seek on; `nil` for none.
    func select(_ track: Int?, of kind: MediaTrack.Kind) {
        chosen[kind] = track.map { Int32($0) }
        chooseTracks()
        discardOthers()
    }

    var tracks: [MediaTrack] {
        streams.compactMap { stream in
            guard let kind = Self.kind(of: stream) else { return nil }
            return MediaTrack(
                id: Int(stream.pointee.index), kind: kind,
                codec: String(cString: avcodec_get_name(stream.pointee.codecpar.pointee.codec_id)),
                language: Self.text("language", of: stream), title: Self.text("title", of: stream))
        }
    }

    /// `nil` for what can't be played.
    private static func kind(of stream: UnsafeMutablePointer<AVStream>) -> MediaTrack.Kind? {
        if SubtitleDecoder.takes(stream) { return .subtitles }
        guard avcodec_find_decoder(stream.pointee.codecpar.pointee.codec_id) != nil else { return nil }
        switch stream.pointee.codecpar.pointee.codec_type {
        case AVMEDIA_TYPE_VIDEO: return stream.pointee.disposition & AV_DISPOSITION_ATTACHED_PIC == 0 ? .video : nil
        case AVMEDIA_TYPE_AUDIO: return .audio
        case _: return nil
        }
    }

    private static func text(_ name: String, of stream: UnsafeMutablePointer<AVStream>) -> String? {
        guard let entry = av_dict_get(stream.pointee.metadata, name, nil, 0), let value = entry.pointee.value else {
            return nil
        }
        let text = String(cString: value)
        return text.isEmpty || text == "und" ? nil : text
    }

    /// Of libavformat's own demuxer for playlists: connections and names are ours, whatever they look like.
    private static let playlistOptions = [
        "http_persistent": "0", "http_multiple": "0", "allowed_extensions": "ALL", "allowed_segment_extensions": "ALL",
        "extension_picky": "0",
    ]

    /// A file that a playlist refers to.
    private func openFile(
        _ name: String, _ options: OpaquePointer?, _ opened: inout UnsafeMutablePointer<AVIOContext>?
    ) -> Int32 {
        // What follows a part that can't be had would be played as if it came next.
        guard let playlist, loadError == nil else { return ff_error_io }
        do {
            guard let file = try playlist.open(name, options, failed: { [unowned self] in loadError = $0 }),
                let context = file.context
            else { return ff_error_denied }
            files[context] = file
            opened = context
            return 0
        } catch {
            loadError = error as? LoadError
            return ff_error_io
        }
    }

    /// An ID3v2 tag (id3.org, v2.4 §3.1) with a picture in it would be read to its end before the first sound.
    private func skipTag(_ head: [UInt8]) {
        guard head.count == Self.headOfTag, head[..<3].elementsEqual("ID3".utf8), head[6...].allSatisfy({ $0 < 0x80 })
        else {
            return
        }
        let size = head[6...].reduce(Int64(0)) { $0 << 7 | Int64($1) } + (head[5] & 0x10 == 0 ? 10 : 20)
        guard size > Self.largestReadTag, reader.length.map({ size < $0 }) ?? true else { return }
        base = size
    }
    private static let headOfTag = 10
    /// A tag of fewer bytes is read: the request for what follows it would take longer.
    private static let largestReadTag: Int64 = 64 * 1024

    private func close() {
        if context != nil { avformat_close_input(&context) }
        (video, audio, subtitles, io, files) = (nil, nil, nil, nil, [:])
    }

    private var streams: [UnsafeMutablePointer<AVStream>] {
        guard let context else { return [] }
        return (0..<Int(context.pointee.nb_streams)).compactMap { context.pointee.streams[$0] }
    }

    private func chooseTracks() {
        let playable = streams.filter { Self.kind(of: $0) != nil }
        func first(_ kind: MediaTrack.Kind) -> UnsafeMutablePointer<AVStream>? {
            let tracks = playable.filter { Self.kind(of: $0) == kind }
            if let number = chosen[kind], let track = tracks.first(where: { $0.pointee.index == number }) {
                return track
            }
            return tracks.first
        }
        video = first(.video)  // a cover is not the video
        isCover = false
        audio = chosen[.audio] == nil ? audioByLanguage(playable) ?? first(.audio) : first(.audio)
        subtitles = chosen[.subtitles] == nil ? nil : first(.subtitles)
        guard video == nil, takesCover else { return }
        let cover = streams.first { stream in
            stream.pointee.disposition & AV_DISPOSITION_ATTACHED_PIC != 0
                && avcodec_find_decoder(stream.pointee.codecpar.pointee.codec_id) != nil
        }
        if let cover { (video, audio, isCover) = (cover, nil, true) }
    }

    private func audioByLanguage(
        _ playable: [UnsafeMutablePointer<AVStream>]
    ) -> UnsafeMutablePointer<AVStream>? {
        for language in languages.map({ $0.lowercased() }) where !language.isEmpty {
            let match = playable.first { stream in
                guard Self.kind(of: stream) == .audio, let text = Self.text("language", of: stream)?.lowercased() else {
                    return false
                }
                return text.hasPrefix(language) || language.hasPrefix(text)
            }
            if let match { return match }
        }
        return nil
    }

    /// MP4 has complete parameters, the reordering depth included, in its head; others need some packets.
    private var needsProbe: Bool {
        guard isMovie else { return true }
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

    /// Where the next read of the demuxer begins.
    var readOffset: Int64 { playlist == nil ? io?.offset ?? 0 : 0 }

    // MARK: Media

    /// The next packet of a played track into `packet`; false at the end of the file.
    ///
    /// - Throws: ``LoadError`` when bytes are missing for good, ``FFmpegError`` otherwise.
    func read(_ packet: UnsafeMutablePointer<AVPacket>) throws -> Bool {
        guard let context else { return false }
        let code = av_read_frame(context, packet)
        if code >= 0 {
            note(packet)
            // What is wrong is told at the end of what came before it: no file is opened after one that can't be had.
            if loadError == nil { playlist?.readAhead() }
            return true
        }
        if let loadError { throw loadError }
        if code == ff_error_eof { return false }
        throw FFmpegError(code: code, call: "av_read_frame")
    }

    /// Whether a sample lies beyond the end of the file, as its index tells.
    var isCutShort: Bool {
        guard let length = reader.length, isMovie else { return false }
        return [video, audio].compactMap { $0 }.contains { stream in
            samples(of: stream).last.map { $0.position + Int64($0.size) > length } ?? false
        }
    }
    /// Whether the file ends within a sample, of which there is no whole picture or sound then.
    func isCutShort(_ packet: UnsafeMutablePointer<AVPacket>) -> Bool {
        packet.pointee.flags & AV_PKT_FLAG_CORRUPT != 0 && isMovie
    }
    private var isMovie: Bool {
        context?.pointee.iformat.map { String(cString: $0.pointee.name).hasPrefix("mov") } ?? false
    }

    /// Goes to the key frame at or before `time`. What went wrong before is forgotten.
    func seek(to time: Duration) throws {
        if playlist != nil {
            loadError = nil
            return try openContext(at: time)
        }
        guard let context else { return }
        if isFirstVideoAwaited { try readToFirstVideo() }  // times count from it
        loadError = nil
        if let bytes = io?.context { (bytes.pointee.error, bytes.pointee.eof_reached) = (0, 0) }
        let place = (time + startTime).wholeNanoseconds / 1_000
        let code = av_seek_frame(context, -1, place, AVSEEK_FLAG_BACKWARD)
        if code < 0, let loadError { throw loadError }
        try check(code, "av_seek_frame")
    }

    /// The file's own time at which its media begins, as far as it tells; everybody else counts from there, as the
    /// `ffmpeg` command does.
    private var startTime: Duration {
        if let playlistStart { return playlistStart }
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

    private var mediaDuration: Duration? {
        if let playlist { return playlist.duration }
        guard let duration = context?.pointee.duration, duration != ff_no_timestamp, duration > 0 else { return nil }
        return .microseconds(duration)
    }

    var description: MediaDescription {
        var description = MediaDescription()
        description.duration = mediaDuration
        if let stream = video {
            description.width = Int(stream.pointee.codecpar.pointee.width)
            description.height = Int(stream.pointee.codecpar.pointee.height)
            description.orientation = Self.orientation(of: stream)
            description.videoCodec = String(cString: avcodec_get_name(stream.pointee.codecpar.pointee.codec_id))
        }
        if let stream = audio {
            description.audioCodec = String(cString: avcodec_get_name(stream.pointee.codecpar.pointee.codec_id))
        }
        description.tracks = tracks
        if let stream = video ?? audio { description.firstFrameEnd = firstKeyEnd(of: stream) }
        return description
    }

    static func orientation(of stream: UnsafeMutablePointer<AVStream>) -> Orientation {
        var isFlipped: Int32 = 0
        let angle = ff_stream_rotation(stream, &isFlipped)
        guard angle.isFinite else { return .upright }
        let quarterTurns = Int((angle / 90).rounded()) % 4
        return Orientation(rotation: (quarterTurns + 4) % 4 * 90, isFlipped: isFlipped != 0)
    }

    /// The shape of a frame's samples; the container's word counts where there is one.
    func pixelAspect(of frame: UnsafeMutablePointer<AVFrame>) -> PixelAspect {
        let ratio = av_guess_sample_aspect_ratio(context, video, frame)
        return ratio.num > 0 && ratio.den > 0 ? PixelAspect(width: Int(ratio.num), height: Int(ratio.den)) : .square
    }

    private func firstKeyEnd(of stream: UnsafeMutablePointer<AVStream>) -> Int64? {
        for sample in samples(of: stream) where sample.isKey && sample.position >= 0 && sample.size >= 0 {
            return sample.position + Int64(sample.size)
        }
        return nil
    }

    private struct RawSample { var position: Int64 = 0, timestamp: Int64 = 0, size: Int32 = 0, isKey = false }

    private func samples(of stream: UnsafeMutablePointer<AVStream>) -> some BidirectionalCollection<RawSample> {
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
        index.duration = mediaDuration
        index.length = reader.length
        index.playlist = playlist?.buffer
        guard isMovie else { return index }
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
