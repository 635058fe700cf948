import EventLoop
import Foundation
import HTTPTransport
import TestSupport
import Testing

/// nginx on loopback with TLS, HTTP/2, redirects, and a second origin that echoes what reaches it.
private final class Nginx {
    static let isInstalled = FileManager.default.isExecutableFile(atPath: "/usr/sbin/nginx")
    let folder = FileManager.default.temporaryDirectory.path() + "/ff-nginx-\(UUID().uuidString)"
    let port: Int
    private let process = Process()

    init() throws {
        try FileManager.default.createDirectory(atPath: folder + "/files", withIntermediateDirectories: true)
        try Data("0123456789".utf8).write(to: URL(filePath: folder + "/files/clip"))
        let (secure, plain) = (try RealServer.freePort(), try RealServer.freePort())
        port = secure
        try RealServer.run(
            "openssl",
            [
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder + "/key.pem", "-out", folder + "/cert.pem",
            ])
        let configuration = """
            daemon off; worker_processes 1; pid \(folder)/pid; error_log \(folder)/error.log;
            events {}
            http {
              access_log off;
              client_body_temp_path \(folder)/t1; proxy_temp_path \(folder)/t2; fastcgi_temp_path \(folder)/t3;
              uwsgi_temp_path \(folder)/t4; scgi_temp_path \(folder)/t5;
              server {
                listen 127.0.0.1:\(secure) ssl http2; root \(folder)/files;
                ssl_certificate \(folder)/cert.pem; ssl_certificate_key \(folder)/key.pem;
                location = /clip { add_header X-Protocol $server_protocol; }
                location = /echo { return 200 "key=$http_x_api_key lang=$http_accept_language"; }
                location = /same { return 302 /echo; }
                location = /other { return 302 http://127.0.0.1:\(plain)/; }
                location = /loop { return 302 /loop; }
                location = /file { return 302 file:///etc/passwd; }
              }
              server { listen 127.0.0.1:\(plain); location / { return 200 "key=$http_x_api_key lang=$http_accept_language"; } }
            }
            """
        try Data(configuration.utf8).write(to: URL(filePath: folder + "/nginx.conf"))
        process.executableURL = URL(filePath: "/usr/sbin/nginx")
        process.arguments = ["-p", folder, "-c", folder + "/nginx.conf", "-e", folder + "/error.log"]
        process.standardError = FileHandle.nullDevice
        try process.run()
    }

    func stop() {
        process.terminate()
        process.waitUntilExit()
        try? FileManager.default.removeItem(atPath: folder)
    }
}

private func text(_ client: HTTPClient, _ url: String, _ headers: HTTPHeaders = [:]) async throws -> (
    HTTPResponseHead, String
) {
    let exchange = try await client.start(HTTPRequest(url: url, headers: headers))
    var body: [UInt8] = []
    while let piece = try await exchange.next() { body += piece }
    return (exchange.head, String(decoding: body, as: UTF8.self))
}

@Suite("Against nginx", .enabled(if: Nginx.isInstalled, "nginx is not installed")) struct NginxTests {
    @Test("TLS is verified, HTTP/2 is used, redirects keep headers with their origin") func nginx() async throws {
        let server = try Nginx()
        let loop = try LoopThread()
        var configuration = HTTPClientConfiguration()
        configuration.certificateAuthorityFile = server.folder + "/cert.pem"
        let (trusting, careful) = (HTTPClient(loop: loop, configuration: configuration), HTTPClient(loop: loop))
        let base = "https://127.0.0.1:\(server.port)"
        for _ in 0..<100 where (try? await text(trusting, base + "/clip")) == nil {
            try await Task.sleep(for: .milliseconds(50))
        }

        let (head, body) = try await text(trusting, base + "/clip")
        #expect(head.status == 200 && body == "0123456789")
        #expect(head.headers["X-Protocol"] == "HTTP/2.0")
        do {
            _ = try await text(careful, base + "/clip")
            Issue.record("a certificate of an unknown authority was taken")
        } catch let error as TransportError {
            guard case .failed(60, _, _) = error else {
                Issue.record("\(error)")
                return
            }
        }

        let secret: HTTPHeaders = ["X-Api-Key": "k", "Accept-Language": "de"]
        let same = try await text(trusting, base + "/same", secret).1
        #expect(same == "key=k lang=de")  // AUTH-3
        let other = try await text(trusting, base + "/other", secret).1
        #expect(other == "key= lang=de")  // AUTH-2
        await #expect(throws: TransportError.tooManyRedirects(host: "127.0.0.1")) {
            try await text(trusting, base + "/loop")
        }
        await #expect(throws: TransportError.forbiddenRedirect(scheme: "file")) {
            try await text(trusting, base + "/file")
        }  // AUTH-9

        await trusting.shutdown()
        await careful.shutdown()
        loop.stop()
        server.stop()
    }
}
