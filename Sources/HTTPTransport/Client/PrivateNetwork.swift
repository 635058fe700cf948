internal import CLibcurl
import Glibc

/// Addresses that only machines of one network can reach (RFC 6890): this machine, home and company networks, links.
package enum PrivateNetwork {
    /// Whether a host of a URL is such an address, written in any of the ways that resolvers take, or this machine's name.
    package static func contains(host: String) -> Bool {
        let host = host.hasSuffix(".") ? String(host.dropLast()) : host
        if host == "localhost" || host.hasSuffix(".localhost") { return true }
        if host.hasPrefix("["), host.hasSuffix("]") {
            var address = in6_addr()
            let text = host.dropFirst().dropLast().prefix { $0 != "%" }
            guard inet_pton(AF_INET6, String(text), &address) == 1 else { return false }
            return withUnsafeBytes(of: address) { contains(Array($0)) }
        }
        var address = in_addr()
        guard inet_aton(host, &address) != 0 else { return false }
        return withUnsafeBytes(of: address) { contains(Array($0)) }
    }

    /// - Parameter address: 4 or 16 bytes.
    static func contains(_ address: [UInt8]) -> Bool { address.count == 4 ? contains4(address) : contains6(address) }

    private static func contains4(_ bytes: [UInt8]) -> Bool {
        switch (bytes[0], bytes[1]) {
        case (0, _), (10, _), (127, _), (169, 254), (192, 168), (240..., _): true
        case (100, 64...127), (172, 16...31): true
        case (192, 0): bytes[2] == 0 || bytes[2] == 2
        default: false
        }
    }
    private static func contains6(_ bytes: [UInt8]) -> Bool {
        if bytes[..<10].allSatisfy({ $0 == 0 }) {
            // "::", "::1", and addresses of version 4 in one of version 6.
            return bytes[10..<12].allSatisfy { $0 == 0xFF } || bytes[10..<12].allSatisfy { $0 == 0 }
                ? bytes[..<12].allSatisfy({ $0 == 0 }) || contains4(Array(bytes[12...])) : false
        }
        if bytes[..<4] == [0, 0x64, 0xFF, 0x9B] { return contains4(Array(bytes[12...])) }  // NAT64, RFC 6052
        return bytes[0] & 0xFE == 0xFC || (bytes[0] == 0xFE && bytes[1] & 0xC0 >= 0x80)
    }
}
