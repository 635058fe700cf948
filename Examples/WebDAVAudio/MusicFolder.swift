import Foundation
import FoundationNetworking
import FoundationXML

struct MusicFolderError: Error, CustomStringConvertible {
    let text: String
    var description: String { text }
}

/// The listing of a WebDAV folder (RFC 4918 §9.1), remembered for when the server is away.
struct MusicFolder {
    let url: String
    let login: (user: String, password: String)?

    /// URLs of the audio files, in the order of their names.
    ///
    /// - Throws: ``MusicFolderError`` when the server does not answer and nothing is remembered.
    func tracks(rememberedIn directory: String) async throws -> [String] {
        let file = URL(filePath: directory + ".folders.json")
        let known = (try? JSONDecoder().decode([String: [String]].self, from: Data(contentsOf: file))) ?? [:]
        do {
            let tracks = try await list()
            var folders = known
            folders[url] = tracks
            try JSONEncoder().encode(folders).write(to: file, options: .atomic)
            return tracks
        } catch let error as URLError {
            guard let tracks = known[url] else {
                throw MusicFolderError(text: "the server of \(url) does not answer: \(error.localizedDescription)")
            }
            return tracks
        }
    }

    private func list() async throws -> [String] {
        guard let base = URL(string: url) else { throw MusicFolderError(text: "\(url) is no URL") }
        var request = URLRequest(url: base, timeoutInterval: 15)
        request.httpMethod = "PROPFIND"
        request.setValue("1", forHTTPHeaderField: "Depth")
        if let login {
            let pair = Data("\(login.user):\(login.password)".utf8).base64EncodedString()
            request.setValue("Basic \(pair)", forHTTPHeaderField: "Authorization")
        }
        let (body, response) = try await URLSession.shared.data(for: request)
        let status = (response as? HTTPURLResponse)?.statusCode ?? 0
        guard status == 207 else {
            let hint = status == 401 ? "; name the login with --user" : "; is it a WebDAV folder?"
            throw MusicFolderError(text: "\(url) answered \(status)\(hint)")
        }
        return HrefReader.hrefs(in: body).compactMap { URL(string: $0, relativeTo: base)?.absoluteString }
            .filter { address in
                let name = address.lowercased()
                return [".mp3", ".m4a", ".flac"].contains { name.hasSuffix($0) }
            }
            .sorted()
    }
}

/// Takes the `href` elements out of a multistatus answer.
private final class HrefReader: NSObject, XMLParserDelegate {
    private var hrefs: [String] = []
    private var text: String?

    static func hrefs(in body: Data) -> [String] {
        let reader = HrefReader()
        let parser = XMLParser(data: body)
        parser.shouldProcessNamespaces = true
        parser.delegate = reader
        _ = parser.parse()  // what was read before a fault counts
        return reader.hrefs
    }
    func parser(
        _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
        attributes: [String: String]
    ) {
        if name == "href" { text = "" }
    }
    func parser(_ parser: XMLParser, foundCharacters characters: String) { text? += characters }
    func parser(
        _ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?
    ) {
        guard name == "href", let href = text else { return }
        hrefs.append(href.trimmingCharacters(in: .whitespacesAndNewlines))
        text = nil
    }
}
