internal import CFFmpeg
import FeedStrategy
import FeedVocabulary
import Playback
import ResourceLoading

/// The files of an HLS playlist, as libavformat's own demuxer for them asks: by names that stand for what the playlist
/// refers to, so that nothing else can be opened. Decode thread only.
final class PlaylistFiles {
    private enum File {
        case text([UInt8])
        case related(track: Int, uri: String)
    }
    private struct Track {
        let playlist: ByteReader
        let buffer: PlaylistBuffer.Track
        /// Of keys and of what has to be read before parts: small, and read again at each seek.
        var extras: [String: ByteReader] = [:]
        /// What could not be opened ahead; who reads it learns why.
        var refused: Set<String> = []
    }
    private var files: [File] = []
    private var tracks: [Track] = []
    let buffer: PlaylistBuffer
    let duration: Duration

    /// How far ahead files are fetched, one after the other.
    private static let window = Duration.seconds(20)

    /// - Parameter reader: Of the file that begins like a playlist.
    init(_ reader: ByteReader, name: String) throws {
        var playlists: [(ByteReader, HLSPlaylist.Media)] = []
        switch try Self.playlist(of: reader, name) {
        case .media(let media): playlists = [(reader, media)]
        case .variants(let variants):
            // Its author's choice to begin with, which is the same for a preload and for the play.
            guard let variant = variants.first else { throw Self.error(.noParts, name) }
            for uri in variant.playlists {
                let reader = try reader.openRelatedBlocking(uri)
                guard case .media(let media) = try Self.playlist(of: reader, name) else {
                    throw Self.error(.badLine(uri), name)
                }
                playlists.append((reader, media))
            }
        }
        buffer = PlaylistBuffer(playlists.map { PlaylistBuffer.Track($0.1) })
        duration = playlists.map(\.1.duration).max() ?? .zero
        tracks = zip(playlists, buffer.tracks).map { Track(playlist: $0.0, buffer: $1) }
    }

    /// What libavformat's demuxer opens to begin with the parts in which `time` lies.
    ///
    /// It is opened anew for each seek: its own seek in MP4 parts ends the play (libavformat 59).
    func text(from time: Duration) -> [UInt8] {
        files = []
        var texts = tracks.indices.map { track in
            var names: [String: String] = [:]
            return tracks[track].buffer.media.from(time).text { uri in
                if let known = names[uri] { return known }
                let new = add(.related(track: track, uri: uri))
                names[uri] = new
                return new
            }
        }
        if texts.count == 2 {
            let sound = add(.text(Array(texts[1].utf8)))
            let pictures = add(.text(Array(texts[0].utf8)))
            texts = [
                """
                #EXTM3U
                #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="sound",NAME="sound",DEFAULT=YES,AUTOSELECT=YES,URI="\(sound)"
                #EXT-X-STREAM-INF:BANDWIDTH=1,AUDIO="sound"
                \(pictures)

                """
            ]
        }
        return Array(texts[0].utf8)
    }

    private static func error(_ failure: HLSPlaylist.Failure, _ name: String) -> PlaybackError {
        .notMedia(name: name, reason: failure.description)
    }

    private static func playlist(of reader: ByteReader, _ name: String) throws -> HLSPlaylist {
        let bytes = try reader.readAllBlocking(count: HLSPlaylist.largestText + 1)
        do throws(HLSPlaylist.Failure) { return try HLSPlaylist(String(decoding: bytes, as: UTF8.self)) } catch {
            throw Self.error(error, name)
        }
    }

    /// A protocol that libavformat's demuxer takes for local: it seeks in it, and asks nothing of HTTP.
    private static let scheme = "file:"
    private func add(_ file: File) -> String {
        files.append(file)
        return "\(Self.scheme)\(files.count - 1)"
    }

    /// Opens a file by the name that it has in the texts.
    ///
    /// - Parameter options: Of libavformat: the key and start of an encrypted one.
    func open(
        _ name: String, _ options: OpaquePointer?, failed: @escaping (LoadError) -> Void
    ) throws -> MediaIO? {
        var rest = name[...]
        let isEncrypted = rest.hasPrefix("crypto")
        if isEncrypted { rest = rest.dropFirst("crypto".count + 1) }
        guard rest.hasPrefix(Self.scheme), let number = Int(rest.dropFirst(Self.scheme.count)),
            files.indices.contains(number)
        else { return nil }
        switch files[number] {
        case .text(let text): return try MediaIO(.memory(text), failed: failed)
        case .related(let track, let uri):
            let reader = try reader(of: uri, track)
            guard isEncrypted else { return try MediaIO(.reader(reader), failed: failed) }
            guard let key = Self.bytes(options, "key"), let iv = Self.bytes(options, "iv"),
                let cipher = CipherReader(reader, key: key, iv: iv)
            else { return nil }
            return try MediaIO(.encrypted(cipher), failed: failed)
        }
    }

    private static func bytes(_ options: OpaquePointer?, _ name: String) -> [UInt8]? {
        guard let entry = av_dict_get(options, name, nil, 0), let value = entry.pointee.value else { return nil }
        let digits = Array(String(cString: value))
        guard digits.count == 32 else { return nil }
        let bytes = stride(from: 0, to: 32, by: 2).compactMap { UInt8(String(digits[$0...$0 + 1]), radix: 16) }
        return bytes.count == 16 ? bytes : nil
    }

    private func reader(of uri: String, _ track: Int) throws -> ByteReader {
        let (buffer, playlist) = (tracks[track].buffer, tracks[track].playlist)
        guard let index = buffer.files.firstIndex(where: { $0.uri == uri }) else {
            let reader = try tracks[track].extras[uri] ?? playlist.openRelatedBlocking(uri)
            tracks[track].extras[uri] = reader
            return reader
        }
        let reader = try buffer.reader(of: uri) ?? playlist.openRelatedBlocking(uri)
        buffer.opened(reader, of: uri)
        close(allBut: index, track)
        return reader
    }

    /// Ends what is behind a file, and too far before it.
    private func close(allBut index: Int, _ track: Int) {
        let buffer = tracks[track].buffer
        let near = Set(buffer.files[max(0, index - 1)...].prefix(Self.mostOpen).map(\.uri))
        for uri in buffer.openFiles where !near.contains(uri) {
            if let reader = buffer.closes(uri) { tracks[track].playlist.closeRelated(reader) }
        }
        buffer.current = index
    }
    private static let mostOpen = 12

    /// Fetches the next file once those before it are there.
    func readAhead() {
        for track in tracks.indices {
            let buffer = tracks[track].buffer
            let (current, end) = (buffer.current, min(buffer.files.count, buffer.current + Self.mostOpen - 1))
            let missing = (current..<end).first { buffer.reader(of: buffer.files[$0].uri)?.isComplete != true }
            guard let next = missing, next > current,
                buffer.files[next].start - buffer.files[current].start < Self.window
            else { continue }
            let uri = buffer.files[next].uri
            guard buffer.reader(of: uri) == nil, !tracks[track].refused.contains(uri) else { continue }
            if let reader = try? tracks[track].playlist.openRelatedBlocking(uri) {
                buffer.opened(reader, of: uri)
            } else {
                tracks[track].refused.insert(uri)
            }
        }
    }
}
