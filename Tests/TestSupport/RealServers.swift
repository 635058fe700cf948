import FeedVocabulary
import Foundation

/// A server program on loopback that serves a folder, with a login; ended by ``stop()``.
package final class RealServer: @unchecked Sendable {
    // @unchecked: nothing changes after init.
    package enum Kind: String, Sendable, CaseIterable, CustomStringConvertible {
        /// nginx with Basic.
        case nginx
        /// nginx over TLS and HTTP/2 with Basic.
        case nginxTLS
        /// apache2 mod_dav with Basic.
        case apacheBasic
        /// apache2 mod_dav with Digest, whose nonces live for two seconds.
        case apacheDigest
        /// rclone's WebDAV server with Basic.
        case rclone
        package var description: String { rawValue }

        var program: String {
            switch self {
            case .nginx, .nginxTLS: "/usr/sbin/nginx"
            case .apacheBasic, .apacheDigest: "/usr/sbin/apache2"
            case .rclone: "/usr/bin/rclone"
            }
        }
        /// Whether the machine has the program; `.ci/packages test` installs all of them.
        package var isInstalled: Bool { FileManager.default.isExecutableFile(atPath: program) }
    }
    package static let user = "anna"
    package static let password = "s3cret:word"

    package let kind: Kind
    /// What is served, below ``baseURL``.
    package let files: String
    package let baseURL: String
    /// Trust this file for TLS.
    package let authority: String?
    private let folder = TemporaryFolder()
    private let process = Process()

    package init(_ kind: Kind) throws {
        self.kind = kind
        files = folder.path + "/files"
        try FileManager.default.createDirectory(atPath: files, withIntermediateDirectories: true)
        let port = try Self.freePort()
        baseURL = "\(kind == .nginxTLS ? "https" : "http")://127.0.0.1:\(port)"
        authority = kind == .nginxTLS ? folder.path + "/cert.pem" : nil
        process.executableURL = URL(filePath: kind.program)
        process.standardError = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        switch kind {
        case .nginx, .nginxTLS: try configureNginx(port)
        case .apacheBasic, .apacheDigest: try configureApache(port)
        case .rclone:
            process.arguments = [
                "serve", "webdav", files, "--addr", "127.0.0.1:\(port)", "--user", Self.user, "--pass", Self.password,
                "--dir-cache-time", "0s", "--config", "/dev/null",
            ]
        }
        try process.run()
        for _ in 0..<200 where !Self.isListening(port) { Thread.sleep(forTimeInterval: 0.05) }
        guard Self.isListening(port) else { throw POSIXError(.ECONNREFUSED) }
    }

    package func write(_ bytes: [UInt8], to name: String) throws { try folder.write(bytes, to: "files/" + name) }

    package func stop() {
        guard process.isRunning else { return }
        switch kind {
        case .nginx, .nginxTLS: process.terminate()  // ends its workers too
        // These inherit the signal mask of a task's thread, in which SIGTERM is blocked.
        case .apacheBasic, .apacheDigest, .rclone: kill(process.processIdentifier, SIGKILL)
        }
        process.waitUntilExit()
    }
    deinit { stop() }

    private func configureNginx(_ port: Int) throws {
        let path = folder.path
        try writeBasicPasswords(to: "htpasswd")
        var tls = ""
        if kind == .nginxTLS {
            try Self.run(
                "openssl",
                [
                    "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", path + "/key.pem", "-out", path + "/cert.pem",
                ])
            tls = "ssl_certificate \(path)/cert.pem; ssl_certificate_key \(path)/key.pem;"
        }
        let configuration = """
            daemon off; worker_processes 1; pid \(path)/pid; error_log \(path)/error.log;
            events {}
            http {
              access_log off; types { video/mp4 mp4; audio/mpeg mp3; audio/flac flac; }
              client_body_temp_path \(path)/t1; proxy_temp_path \(path)/t2; fastcgi_temp_path \(path)/t3;
              uwsgi_temp_path \(path)/t4; scgi_temp_path \(path)/t5;
              server {
                listen 127.0.0.1:\(port) \(kind == .nginxTLS ? "ssl http2" : ""); \(tls)
                root \(files); auth_basic "music"; auth_basic_user_file \(path)/htpasswd;
              }
            }
            """
        try folder.write(Array(configuration.utf8), to: "nginx.conf")
        process.arguments = ["-p", path, "-c", path + "/nginx.conf", "-e", path + "/error.log"]
        // The workers of a server that root starts are another user's.
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
    }

    private func configureApache(_ port: Int) throws {
        let path = folder.path
        let modules = [
            "mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "auth_digest", "dav",
            "dav_fs",
            "mime",
        ]
        let (basic, digest) = (path + "/basic", path + "/digest")
        try writeBasicPasswords(to: "basic")
        let realm = "\(Self.user):music:"
        try folder.write(Array((realm + MD5.hexDigest(of: (realm + Self.password).utf8) + "\n").utf8), to: "digest")
        let login =
            kind == .apacheBasic
            ? "AuthType Basic\nAuthUserFile \(basic)"
            : "AuthType Digest\nAuthDigestProvider file\nAuthUserFile \(digest)\nAuthDigestNonceLifetime 2"
        let configuration = """
            ServerRoot \(path)
            ServerName localhost
            PidFile \(path)/pid
            ErrorLog \(path)/error.log
            \(geteuid() == 0 ? "User www-data\nGroup www-data" : "")
            \(modules.map { "LoadModule \($0)_module /usr/lib/apache2/modules/mod_\($0).so" }.joined(separator: "\n"))
            TypesConfig \(path)/types
            Listen 127.0.0.1:\(port)
            DavLockDB \(path)/locks
            DocumentRoot \(files)
            <Location />
            Dav On
            AuthName music
            \(login)
            Require valid-user
            </Location>
            """
        try folder.write(Array("video/mp4 mp4\naudio/mpeg mp3\naudio/flac flac\n".utf8), to: "types")
        try folder.write(Array(configuration.utf8), to: "apache.conf")
        process.arguments = ["-f", path + "/apache.conf", "-X"]  // one process
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
    }

    private func writeBasicPasswords(to name: String) throws {
        let path = folder.path + "/" + name
        try Self.run("openssl", ["passwd", "-apr1", Self.password], output: path)
        let hash = try String(contentsOfFile: path, encoding: .utf8)
        try folder.write(Array("\(Self.user):\(hash)".utf8), to: name)
    }

    /// Runs a program of the PATH to its end.
    package static func run(_ program: String, _ arguments: [String], output: String? = nil) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [program] + arguments
        process.standardError = FileHandle.nullDevice
        if let output {
            _ = FileManager.default.createFile(atPath: output, contents: nil)
            process.standardOutput = FileHandle(forWritingAtPath: output)
        }
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw POSIXError(.EINVAL) }
    }

    /// A port that nobody listens on.
    package static func freePort() throws -> Int {
        let responder = try RawResponder { _ in [.close] }
        defer { responder.stop() }
        return responder.port
    }

    private static func isListening(_ port: Int) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(port)).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
