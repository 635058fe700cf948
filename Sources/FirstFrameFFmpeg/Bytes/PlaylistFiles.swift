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
        let media: HLSPlaylist.Media
        let buffer: PlaylistBuffer.Track
        /// Each file of the playlist once, in the order of first use.
        let uris: [String]
        /// Readers of files that are read, or will be.
        var readers: [String: ByteReader] = [:]
        /// Of keys and of what has to be read before parts: small, and read again at each seek.
        var extras: [String: ByteReader] = [:]
        /// What could not be opened ahead; who reads it learns why.
        var refused: Set<String> = []
    }
    private let name: String
    private var files: [File] = []
    private var tracks: [Track] = []
    let buffer: PlaylistBuffer
    let duration: Duration

    /// How far ahead files are fetched, one after the other.
    private static let window = Duration.seconds(20)

    /// - Parameter reader: Of the file that begins like a playlist.
    init(_ reader: ByteReader, name: String) throws {
        self.name = name
        var playlists: [(ByteReader, HLSPlaylist.Media)] = []
        switch try Self.playlist(of: reader, name) {
        case .media(let media): playlists = [(reader, media)]
        case .variants(let variants):
            // Its author's choice to begin with, which is the same for a preload and for the play.
            guard let variant = variants.first else { throw Self.error(.noParts, name) }
            for uri in [variant.uri, variant.audio].compactMap({ $0 }) {
                let reader = try reader.openRelatedBlocking(uri)
                guard case .media(let media) = try Self.playlist(of: reader, name) else {
                    throw Self.error(.badLine(uri), name)
                }
                playlists.append((reader, media))
            }
        }
        buffer = PlaylistBuffer(playlists.map { PlaylistBuffer.Track($0.1.parts) })
        duration = playlists.map(\.1.duration).max() ?? .zero
        for ((reader, media), buffer) in zip(playlists, buffer.tracks) {
            var uris: [String] = []
            var seen: Set<String> = []
            for part in media.parts where seen.insert(part.place.uri).inserted { uris.append(part.place.uri) }
            tracks.append(Track(playlist: reader, media: media, buffer: buffer, uris: uris))
        }
    }

    /// What libavformat's demuxer opens to begin with the parts in which `time` lies.
    ///
    /// It is opened anew for each seek: its own seek in MP4 parts ends the play (libavformat 59).
    func text(from time: Duration) -> [UInt8] {
        files = []
        var texts = tracks.indices.map { track in
            var names: [String: String] = [:]
            return tracks[track].media.from(time).text { uri in
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
        guard let bytes = try reader.readAllBlocking(most: HLSPlaylist.largestText) else {
            throw error(.tooLarge, name)
        }
        guard HLSPlaylist.begins(bytes) else {
            throw error(.badLine(String(decoding: bytes.prefix(40), as: UTF8.self)), name)
        }
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

    private func reader(of uri: String, _ track: Int) throws(LoadError) -> ByteReader {
        if let reader = tracks[track].readers[uri] ?? tracks[track].extras[uri] { return reader }
        let reader = try tracks[track].playlist.openRelatedBlocking(uri)
        if let index = tracks[track].uris.firstIndex(of: uri) {
            tracks[track].readers[uri] = reader
            tracks[track].buffer.opened(reader, of: uri)
            close(allBut: index, track)
        } else {
            tracks[track].extras[uri] = reader
        }
        return reader
    }

    /// Ends what is behind a file, and too far before it.
    private func close(allBut index: Int, _ track: Int) {
        let near = Set(tracks[track].uris[max(0, index - 1)...].prefix(Self.mostOpen))
        for (uri, reader) in tracks[track].readers where !near.contains(uri) {
            tracks[track].readers[uri] = nil
            tracks[track].buffer.closes(uri)
            tracks[track].playlist.closeRelated(reader)
        }
        tracks[track].buffer.current = index
    }
    private static let mostOpen = 12

    /// Fetches the next file once those before it are there.
    func readAhead() {
        for track in tracks.indices {
            let state = tracks[track]
            var next = state.buffer.current
            while next < state.uris.count, state.readers[state.uris[next]]?.isComplete == true { next += 1 }
            guard next > state.buffer.current, next < min(state.uris.count, state.buffer.current + Self.mostOpen - 1),
                state.readers[state.uris[next]] == nil, !state.refused.contains(state.uris[next]),
                state.buffer.time(from: state.uris[state.buffer.current], to: state.uris[next]) < Self.window
            else { continue }
            guard let reader = try? state.playlist.openRelatedBlocking(state.uris[next]) else {
                tracks[track].refused.insert(state.uris[next])
                continue
            }
            tracks[track].readers[state.uris[next]] = reader
            state.buffer.opened(reader, of: state.uris[next])
        }
    }
}
