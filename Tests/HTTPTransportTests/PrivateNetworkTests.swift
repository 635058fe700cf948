import HTTPTransport
import Testing

@Suite("Private networks") struct PrivateNetworkTests {
    @Test(
        "addresses that only this network reaches are known in each way that a resolver takes",
        arguments: [
            "127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "017700000001", "10.1.2.3", "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "192.0.2.1", "255.255.255.255", "localhost",
            "localhost.",
            "a.localhost", "[::1]", "[::]", "[::ffff:10.0.0.1]", "[::ffff:a9fe:a9fe]", "[fe80::1%25eth0]", "[fd00::1]",
            "[64:ff9b::7f00:1]",
        ])
    func known(host: String) { #expect(PrivateNetwork.contains(host: host)) }

    @Test(
        "public addresses and names are none of them",
        arguments: [
            "example.org", "8.8.8.8", "172.15.0.1", "172.32.0.1", "193.168.1.1", "100.128.0.1", "192.0.77.1",
            "[2001:db8::1]",
            "[::ffff:8.8.8.8]", "localhost.example",
        ])
    func unknown(host: String) { #expect(!PrivateNetwork.contains(host: host)) }
}
