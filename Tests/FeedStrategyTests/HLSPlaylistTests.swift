import FeedStrategy
import FeedVocabulary
import Foundation
import Testing

@Suite("HLS playlists") struct HLSPlaylistTests {
    private func media(_ text: String) throws -> HLSPlaylist.Media {
        guard case .media(let media) = try HLSPlaylist(text) else { throw HLSPlaylist.Failure.noParts }
        return media
    }

    @Test("parts have places, times, what comes before them, and keys")
    func parts() throws {
        let media = try media(
            """
            #EXTM3U\r
            #EXT-X-TARGETDURATION:4\r
            #EXT-X-MEDIA-SEQUENCE:7
            #EXT-X-MAP:URI="init.mp4",BYTERANGE="100@0"
            #EXT-X-UNKNOWN:x
            #EXTINF:4.0,a title, with a comma
            #EXT-X-BYTERANGE:500@100
            all.m4s
            #EXT-X-KEY:METHOD=AES-128,URI="k?a=1,2",IV=0xA1
            #EXTINF:2.5,
            #EXT-X-BYTERANGE:300
            all.m4s
            #EXT-X-DISCONTINUITY
            #EXT-X-KEY:METHOD=NONE
            #EXTINF:1,
            other.m4s
            #EXT-X-ENDLIST
            """)
        #expect(media.sequence == 7)
        #expect(media.duration == .milliseconds(7500))
        #expect(media.parts.map(\.place.uri) == ["all.m4s", "all.m4s", "other.m4s"])
        #expect(media.parts.map(\.place.range) == [100..<600, 600..<900, nil])
        #expect(media.parts.map(\.start) == [.zero, .seconds(4), .milliseconds(6500)])
        #expect(media.parts[0].initialization?.uri == "init.mp4" && media.parts[0].initialization?.range == 0..<100)
        let iv = String(repeating: "0", count: 30) + "a1"
        #expect(media.parts.map(\.key?.uri) == [nil, "k?a=1,2", nil])
        #expect(media.parts.map(\.key?.iv) == [nil, iv, nil])
        #expect(media.parts.map(\.isDiscontinuous) == [false, false, true])
    }

    @Test("the shortest form says the same")
    func text() throws {
        let media = try media(
            """
            #EXTM3U
            #EXT-X-MEDIA-SEQUENCE:3
            #EXT-X-KEY:METHOD=AES-128,URI="key"
            #EXT-X-MAP:URI="i",BYTERANGE="7@9"
            #EXTINF:1.5,
            #EXT-X-BYTERANGE:10@20
            a
            #EXT-X-DISCONTINUITY
            #EXT-X-KEY:METHOD=NONE
            #EXTINF:2,
            b
            #EXT-X-ENDLIST
            """)
        #expect(try self.media(media.text { $0 }) == media)
        #expect(media.text { "<\($0)>" }.contains("\n<b>\n"))
    }

    @Test("what is read before parts keeps the key that stood before it") func initializationKey() throws {
        let media = try media(
            """
            #EXTM3U
            #EXT-X-MAP:URI="init"
            #EXT-X-KEY:METHOD=AES-128,URI="key"
            #EXTINF:1,
            a
            #EXTINF:1,
            b
            #EXT-X-ENDLIST
            """)
        for text in [media, media.from(.seconds(1))].map({ $0.text { $0 } }) {
            let map = try #require(text.range(of: "#EXT-X-MAP")), key = try #require(text.range(of: "#EXT-X-KEY"))
            #expect(map.lowerBound < key.lowerBound, "\(text)")
        }
    }

    @Test("any sequence number can be counted on from") func sequence() throws {
        let media = try media(
            "#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:9223372036854775807\n#EXTINF:1,\na\n#EXTINF:1,\nb\n#EXT-X-ENDLIST")
        #expect(media.from(.seconds(1)).parts.map(\.place.uri) == ["b"])
        #expect(media.from(.seconds(-1)).parts.count == 2 && media.from(.seconds(99)).parts.count == 1)
    }

    @Test("variants come in their author's order, sound alone last, with the playlist of their sound")
    func variants() throws {
        guard
            case .variants(let variants) = try HLSPlaylist(
                """
                #EXTM3U
                #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="s",NAME="English",URI="english.m3u8"
                #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="Other",URI="other.m3u8"
                #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="English",DEFAULT=YES,URI="sound.m3u8"
                #EXT-X-STREAM-INF:BANDWIDTH=64000,CODECS="mp4a.40.2"
                sound-only.m3u8
                #EXT-X-STREAM-INF:BANDWIDTH=800000,CODECS="avc1.4d401e,mp4a.40.2",AUDIO="a"
                middle.m3u8
                #EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI="frames.m3u8"
                #EXT-X-STREAM-INF:BANDWIDTH=2000000
                high.m3u8
                """)
        else {
            Issue.record("no variants")
            return
        }
        #expect(variants.map(\.uri) == ["middle.m3u8", "high.m3u8", "sound-only.m3u8"])
        #expect(variants.map(\.bandwidth) == [800_000, 2_000_000, 64_000])
        #expect(variants.map(\.audio) == ["sound.m3u8", nil, nil])
    }

    @Test(
        "what can't be played is refused by its reason",
        arguments: [
            ("#EXTM3U\n#EXTINF:1,\na\n", HLSPlaylist.Failure.live),
            ("#EXTM3U\n#EXT-X-ENDLIST\n", .noParts),
            (
                "#EXTM3U\n#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"k\"\n#EXTINF:1,\na\n#EXT-X-ENDLIST",
                .encrypted("SAMPLE-AES")
            ),
            (
                "#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,KEYFORMAT=\"com.x\",URI=\"k\"\n#EXTINF:1,\na",
                .encrypted("AES-128 (com.x)")
            ),
            ("#EXTM3U\n#EXTINF:nan,\na", .badLine("#EXTINF:nan,")),
            ("#EXTM3U\n#EXTINF:1,\n#EXT-X-BYTERANGE:-5@0\na", .badLine("-5@0")),
        ])
    func refused(text: String, failure: HLSPlaylist.Failure) {
        #expect(throws: failure) { try HLSPlaylist(text) }
    }

    @Test("a playlist of more parts than any clip has is refused")
    func manyParts() {
        let text = "#EXTM3U\n" + String(repeating: "#EXTINF:1,\na\n", count: HLSPlaylist.mostParts + 1)
        #expect(throws: HLSPlaylist.Failure.tooLarge) { try HLSPlaylist(text) }
    }
}
