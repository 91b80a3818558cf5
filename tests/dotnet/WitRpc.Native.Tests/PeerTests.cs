using Demo;

namespace WitRpc.Native.Tests;

/// <summary>
/// The .NET peer on the other side, in both roles: every transport with every codec and every kind of security. By default so many
/// cells that each pair of settings is met; all of them with WITRPC_FULL_MATRIX=1.
/// </summary>
public class PeerTests
{
    private static readonly string[] Transports = ["tcp", "tls", "ws", "pipe"];
    private static readonly string[] Formats = ["Json", "MemoryPack", "MessagePack", "ProtoBuf"];
    private static readonly string[] Securities = ["open", "token", "encrypted", "encrypted and token"];

    public static TheoryData<string, string, string> Cells()
    {
        bool isFull = Environment.GetEnvironmentVariable("WITRPC_FULL_MATRIX") == "1";
        var cells = new TheoryData<string, string, string>();
        for (int i = 0; i < Formats.Length; i++)
        {
            for (int j = 0; j < Transports.Length; j++)
            {
                for (int k = 0; k < Securities.Length; k++)
                {
                    if (isFull || (i + j) % Securities.Length == k)
                    {
                        cells.Add(Transports[j], Formats[i], Securities[k]);
                    }
                }
            }
        }
        return cells;
    }

    [Theory]
    [MemberData(nameof(Cells))]
    public async Task ClientRole(string transport, string name, string security)
    {
        var format = Enum.Parse<Conversation.Format>(name);
        string pipe = $"witrpc-net-{Guid.NewGuid():N}";
        int port = Support.FreePort();
        string folder = Directory.CreateTempSubdirectory("witrpc-net-").FullName;
        string listen = transport switch
        {
            "tcp" => "tcp:0",
            "tls" => "tls:0",
            "ws" => $"http://localhost:{port}/api/",
            _ => "pipe:" + pipe,
        };
        string[] options = ["--codec", name.ToLowerInvariant(), "--weak", .. PeerSecurity(security), .. transport == "tls" ? (string[])["--certdir", folder] : []];
        (OtherProcess server, string where) = await OtherProcess.PeerAsync(listen, options);
        await using (server)
        {
            await using WitClient client = WitClientBuilder.Build(o =>
            {
                _ = transport switch
                {
                    "tcp" => o.WithTcp("127.0.0.1", int.Parse(where)),
                    "tls" => o.WithTcpSecure("127.0.0.1", int.Parse(where), null, tls => tls.PinnedCertificates.Add(Fingerprint(Path.Combine(folder, "tls.pem")))),
                    "ws" => o.WithWebSocket($"ws://localhost:{port}/api/"),
                    _ => o.WithNamedPipe(pipe),
                };
                o.With(format);
                _ = security.Contains("encrypted") ? o.WithEncryption() : o;
                _ = security.Contains("token") ? o.WithAccessToken("secret") : o;
            });
            await client.ConnectAsync().InTime();
            IEcho echo = client.GetService<IEcho>();
            await Conversation.CallEverythingAsync(echo, format, isOwn: false);
            await Conversation.RaiseEverythingAsync(echo, format);
            Assert.True(await client.ProbeAsync(TimeSpan.FromSeconds(30)) > TimeSpan.Zero);
        }
        Directory.Delete(folder, recursive: true);
    }

    [Theory]
    [MemberData(nameof(Cells))]
    public async Task ServerRole(string transport, string name, string security)
    {
        string peer = Support.NeedPeer();
        var format = Enum.Parse<Conversation.Format>(name);
        string certs = Path.Combine(Support.Root, "tests", "certs");
        string pipe = $"witrpc-net-{Guid.NewGuid():N}";
        await using WitServer server = WitServerBuilder.Build(o =>
        {
            _ = transport switch
            {
                "tcp" => o.WithTcp(0),
                "tls" => o.WithTcpSecure(0, Path.Combine(certs, "server.pem"), Path.Combine(certs, "server-key.pem")),
                "ws" => o.WithWebSocket("ws://127.0.0.1:0/api/"),
                _ => o.WithNamedPipe(pipe),
            };
            o.WithService<IEcho>(new EchoService()).With(format);
            _ = security.Contains("encrypted") ? o.WithEncryption() : o;
            _ = security.Contains("token") ? o.WithAccessToken("secret") : o;
        });
        await server.StartAsync();
        string port = server.Endpoints[0].Replace("/api/", "").Split(':')[^1];
        string[] address = transport switch
        {
            "tcp" => [$"tcp:127.0.0.1:{port}"],
            "tls" => [$"tls:localhost:{port}", "--cafile", Path.Combine(certs, "ca.pem")],
            "ws" => [$"ws://127.0.0.1:{port}/api/"],
            _ => ["pipe:" + pipe],
        };
        (int code, string output) = await OtherProcess.RunAsync(peer, ["client", "--connect", .. address, "--codec", name.ToLowerInvariant(), "--weak", .. PeerSecurity(security)]);
        // Where we say what is wrong and a .NET server goes on with null: protobuf has no form for an object.
        string[] wrong = [.. output.Split('\n').Where(l => l.Contains("\"ok\":false") && !l.Contains("protobuf can not hold an object"))];
        Assert.True(wrong.Length == 0, string.Join("\n", wrong));
        Assert.Matches(format == Conversation.Format.ProtoBuf ? @"\d+ passed, 2 failed" : @"\d+ passed, 0 failed", output);
        Assert.Equal(format == Conversation.Format.ProtoBuf ? 1 : 0, code);
    }

    [Fact]
    public async Task ALostAnswerIsUnknownUnlessTheMethodMayRunTwice()
    {
        (OtherProcess server, string port) = await OtherProcess.PeerAsync("tcp:0", "--close-after", "1");
        await using (server)
        {
            await using WitClient client = WitClientBuilder.Build(o => o.WithTcp("127.0.0.1", int.Parse(port))
                .WithAutoReconnect(r => r.InitialDelay = TimeSpan.FromMilliseconds(50))
                .WithRetryPolicy(p => p.MarkDeduplicated(nameof(IEcho.CountUp)).InitialDelay = TimeSpan.FromMilliseconds(10)));
            await client.ConnectAsync().InTime();
            var e = Assert.Throws<WitRpcException>(() => client.GetService<IEcho>().CountUp(1));
            Assert.Equal((WitErrorCode.OutcomeUnknown, CallOutcome.Unknown), (e.Code, e.Outcome));
            Assert.Equal(1, client.GetService<IEcho>().Count());
        }
    }

    private static string[] PeerSecurity(string security) =>
        [.. security.Contains("encrypted") ? (string[])["--encrypt"] : [], .. security.Contains("token") ? (string[])["--token", "secret"] : []];

    private static byte[] Fingerprint(string pem)
    {
        using var certificate = System.Security.Cryptography.X509Certificates.X509Certificate2.CreateFromPem(File.ReadAllText(pem));
        return System.Security.Cryptography.SHA256.HashData(certificate.RawData);
    }
}
