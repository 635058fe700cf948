package import FeedVocabulary

/// A playlist of HTTP Live Streaming (RFC 8216), as far as a player needs it to choose, check and read ahead. Everything in
/// it is as the server wrote it: references are not resolved.
package enum HLSPlaylist: Hashable, Sendable {
    case media(Media)
    /// The same media in several qualities, as their author orders them: the first is meant to begin with (§6.3.1), but
    /// that those of sound alone come last.
    case variants([Variant])

    package struct Variant: Hashable, Sendable {
        package var uri: String
        package var bandwidth: Int?
        /// The playlist of its sound, where that is apart.
        package var audio: String?
        /// All that it consists of.
        package var playlists: [String] { audio.map { [uri, $0] } ?? [uri] }
    }
    package struct Media: Hashable, Sendable {
        package var parts: [Part] = []
        package var sequence: Int64 = 0
    }
    /// A media segment.
    package struct Part: Hashable, Sendable {
        package var place: Place
        package var start: Duration
        package var duration: Duration
        /// What has to be read before it (`EXT-X-MAP`), and the key that stood before that.
        package var initialization: Place?
        package var initializationKey: Key?
        package var key: Key?
        package var isDiscontinuous = false
    }
    package struct Place: Hashable, Sendable {
        package var uri: String
        /// `nil` for all of it.
        package var range: ByteRange?
    }
    /// AES-128 in CBC mode (§4.3.2.4).
    package struct Key: Hashable, Sendable {
        package var uri: String
        /// 32 hexadecimal digits; `nil` stands for the part's sequence number.
        package var iv: String?
    }

    package enum Failure: Error, Hashable, CustomStringConvertible {
        case live
        case encrypted(String)
        case noParts
        case tooLarge
        case badLine(String)

        /// One phrase that says what is wrong.
        package var description: String {
            switch self {
            case .live: "the playlist has no end (live); only playlists of recorded media are played"
            case .encrypted(let method): "its parts are encrypted by \(method); only AES-128 is decrypted"
            case .noParts: "the playlist names no media"
            case .tooLarge: "the playlist has more than \(HLSPlaylist.mostParts) parts, or \(largestText / 1024) KB"
            case .badLine(let line): "the playlist has a line that is not understood: \(line.prefix(80))"
            }
        }
    }

    /// Texts larger than this are no playlists of clips.
    package static let largestText = 4 * 1024 * 1024
    package static let mostParts = 50_000
    private static let longestPart = 24 * 3600.0

    /// Whether a file that begins so is a playlist.
    package static func begins(_ head: some Sequence<UInt8>) -> Bool { head.starts(with: beginning) }
    package static let beginning = Array("#EXTM3U".utf8)

    package init(_ text: String) throws(Failure) {
        guard text.utf8.count <= Self.largestText else { throw .tooLarge }
        guard Self.begins(text.utf8) else { throw .badLine(String(text.prefix(40))) }
        var reader = Reader()
        for line in text.split(whereSeparator: \.isNewline) {
            let line = line.drop { $0 == " " || $0 == "\t" || $0 == "\u{FEFF}" }
            if !line.isEmpty { try reader.take(line) }
        }
        self = try reader.finish()
    }

    private struct Reader {
        private var media = Media()
        private var variants: [(variant: Variant, group: String?, hasPictures: Bool)] = []
        private var audio: [String: String] = [:]
        private var time = 0.0
        private var partDuration: Double?
        private var range: (length: Int64, offset: Int64?)?
        private var ends: [String: Int64] = [:]
        private var initialization: Place?
        private var initializationKey: Key?
        private var key: Key?
        private var isDiscontinuous = false
        private var isEnded = false
        private var next: (bandwidth: Int?, group: String?, hasPictures: Bool)?
        private static let soundCodecs = ["mp4a", "ac-3", "ec-3", "opus", "flac", "alac", "mp3"]

        mutating func take(_ line: Substring) throws(Failure) {
            guard line.first == "#" else { return try takeReference(String(line)) }
            let tag = line.prefix { $0 != ":" }
            let value = line.dropFirst(tag.count + 1)
            switch tag {
            case "#EXTINF":
                guard let seconds = Double(value.prefix { $0 != "," }), (0...longestPart).contains(seconds) else {
                    throw .badLine(String(line))
                }
                partDuration = seconds
            case "#EXT-X-BYTERANGE": range = try byteRange(value)
            case "#EXT-X-MAP":
                let attributes = Self.attributes(value)
                guard let uri = attributes["URI"] else { throw .badLine(String(line)) }
                let part = try attributes["BYTERANGE"].map { text throws(Failure) in try byteRange(text[...]) }
                (initialization, initializationKey) = (try place(uri, part), key)
            case "#EXT-X-KEY": try takeKey(Self.attributes(value), line)
            case "#EXT-X-DISCONTINUITY": isDiscontinuous = true
            case "#EXT-X-ENDLIST": isEnded = true
            case "#EXT-X-MEDIA-SEQUENCE": media.sequence = Int64(value).map { min(max(0, $0), .max / 2) } ?? 0
            case "#EXT-X-STREAM-INF":
                let attributes = Self.attributes(value)
                let codecs = attributes["CODECS"].map { $0.lowercased().split(separator: ",") } ?? []
                let isSound = codecs.map { codec in Self.soundCodecs.contains { codec.contains($0) } }
                let hasPictures = isSound.isEmpty || isSound.contains(false) || attributes["RESOLUTION"] != nil
                next = (attributes["BANDWIDTH"].flatMap { Int($0) }, attributes["AUDIO"], hasPictures)
            case "#EXT-X-MEDIA":
                let attributes = Self.attributes(value)
                guard attributes["TYPE"] == "AUDIO", let group = attributes["GROUP-ID"], let uri = attributes["URI"]
                else { return }
                if audio[group] == nil || attributes["DEFAULT"] == "YES" { audio[group] = uri }
            case _: return  // not needed (§6.3.1: what is not known is left alone)
            }
        }

        private mutating func takeReference(_ uri: String) throws(Failure) {
            if let variant = next.take() {
                let new = Variant(uri: uri, bandwidth: variant.bandwidth)
                return variants.append((new, variant.group, variant.hasPictures))
            }
            guard let seconds = partDuration.take() else { return }
            guard media.parts.count < mostParts else { throw .tooLarge }
            media.parts.append(
                Part(
                    place: try place(uri, range.take()), start: .seconds(time), duration: .seconds(seconds),
                    initialization: initialization, initializationKey: initializationKey, key: key,
                    isDiscontinuous: isDiscontinuous))
            time += seconds
            isDiscontinuous = false
        }

        private mutating func takeKey(_ attributes: [String: String], _ line: Substring) throws(Failure) {
            let method = attributes["METHOD"] ?? "?"
            if method == "NONE" { return key = nil }
            guard method == "AES-128", attributes["KEYFORMAT"] ?? "identity" == "identity" else {
                throw .encrypted(attributes["KEYFORMAT"].map { "\(method) (\($0))" } ?? method)
            }
            guard let uri = attributes["URI"] else { throw .badLine(String(line)) }
            var iv: String?
            if let text = attributes["IV"]?.lowercased() {
                guard text.hasPrefix("0x"), text.count <= 34, text.dropFirst(2).allSatisfy(\.isHexDigit) else {
                    throw .badLine(String(line))
                }
                iv = String(repeating: "0", count: 34 - text.count) + text.dropFirst(2)
            }
            key = Key(uri: uri, iv: iv)
        }

        /// `<length>[@<offset>]` (§4.3.2.2).
        private func byteRange(_ text: Substring) throws(Failure) -> (length: Int64, offset: Int64?) {
            let numbers = text.split(separator: "@").map { Int64($0) }
            guard (1...2).contains(numbers.count), let length = numbers[0], length > 0,
                numbers.count == 1 || numbers[1].map({ $0 >= 0 }) == true
            else { throw .badLine(String(text)) }
            return (length, numbers.count == 2 ? numbers[1] : nil)
        }

        /// Without an offset a range follows the one before it of the same file.
        private mutating func place(_ uri: String, _ range: (length: Int64, offset: Int64?)?) throws(Failure) -> Place {
            guard let range else { return Place(uri: uri) }
            let bytes = ByteRange(offset: range.offset ?? ends[uri] ?? 0, saturatingLength: range.length)
            guard bytes.upperBound < .max else { throw .badLine("\(range.length)@\(bytes.lowerBound)") }
            ends[uri] = bytes.upperBound
            return Place(uri: uri, range: bytes)
        }

        /// `NAME=value,NAME="quoted value"` (§4.2).
        private static func attributes(_ text: Substring) -> [String: String] {
            var attributes: [String: String] = [:]
            var rest = text
            while let equals = rest.firstIndex(of: "=") {
                let name = rest[..<equals].drop { $0 == "," || $0 == " " }
                rest = rest[rest.index(after: equals)...]
                let value: Substring
                if rest.first == "\"" {
                    value = rest.dropFirst().prefix { $0 != "\"" }
                    rest = rest[value.endIndex...].dropFirst()
                } else {
                    value = rest.prefix { $0 != "," }
                    rest = rest[value.endIndex...]
                }
                attributes[String(name)] = String(value)
            }
            return attributes
        }

        func finish() throws(Failure) -> HLSPlaylist {
            if !variants.isEmpty {
                let ordered = variants.filter(\.hasPictures) + variants.filter { !$0.hasPictures }
                return .variants(
                    ordered.map { variant, group, _ in
                        var variant = variant
                        variant.audio = group.flatMap { audio[$0] }
                        return variant
                    })
            }
            guard !media.parts.isEmpty else { throw .noParts }
            guard isEnded else { throw .live }
            return .media(media)
        }
    }
}

extension HLSPlaylist.Media {
    /// How long all of it lasts.
    package var duration: Duration { parts.last.map { $0.start + $0.duration } ?? .zero }

    /// What is left of it when it begins with the part in which `time` lies.
    package func from(_ time: Duration) -> Self {
        let first = max(0, min(parts.count - 1, parts.partitioningIndex { $0.start > time } - 1))
        var rest = self
        rest.parts.removeFirst(first)
        rest.sequence += Int64(first)
        return rest
    }

    /// The same playlist in its shortest form.
    ///
    /// - Parameter name: What each reference is written as.
    package func text(naming name: (String) -> String) -> String {
        var lines = ["#EXTM3U", "#EXT-X-VERSION:7", "#EXT-X-MEDIA-SEQUENCE:\(sequence)"]
        let longest = parts.map(\.duration).max() ?? .zero
        lines.insert("#EXT-X-TARGETDURATION:\(max(1, Int((longest / .seconds(1)).rounded(.up))))", at: 1)
        var (map, key): (HLSPlaylist.Place?, HLSPlaylist.Key?)
        for part in parts {
            if part.isDiscontinuous { lines.append("#EXT-X-DISCONTINUITY") }
            func use(_ next: HLSPlaylist.Key?) {
                guard next != key else { return }
                let written = next.map { key in
                    "METHOD=AES-128,URI=\"\(name(key.uri))\"" + (key.iv.map { ",IV=0x\($0)" } ?? "")
                }
                lines.append("#EXT-X-KEY:\(written ?? "METHOD=NONE")")
                key = next
            }
            if part.initialization != map, let initialization = part.initialization {
                use(part.initializationKey)
                let range = initialization.range.map { ",BYTERANGE=\"\($0.length)@\($0.lowerBound)\"" } ?? ""
                lines.append("#EXT-X-MAP:URI=\"\(name(initialization.uri))\"\(range)")
                map = initialization
            }
            use(part.key)
            lines.append("#EXTINF:\(part.duration / .seconds(1)),")
            if let range = part.place.range { lines.append("#EXT-X-BYTERANGE:\(range.length)@\(range.lowerBound)") }
            lines.append(name(part.place.uri))
        }
        return (lines + ["#EXT-X-ENDLIST", ""]).joined(separator: "\n")
    }
}
