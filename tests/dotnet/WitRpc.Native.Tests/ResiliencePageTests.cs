using System.Text.RegularExpressions;
using Demo;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace WitRpc.Native.Tests;

/// <summary>Every piece of code of the page runs, and does what the page says.</summary>
public class ResiliencePageTests
{
    [Fact]
    public void TheCodeIsThePages()
    {
        string page = Path.Combine(Environment.GetEnvironmentVariable("WITRPC_SHARED") ?? Path.Combine(Support.Root, "..", "shared"), "witrpc-resilience.md");
        if (!File.Exists(page))
        {
            Assert.SkipWhen(Environment.GetEnvironmentVariable("WITRPC_REQUIRE_ALL") != "1", "the page is not at hand");
            Assert.Fail("the page is not at hand, and nothing may be skipped");
        }
        string text = File.ReadAllText(page);
        string source = File.ReadAllText(Path.Combine(Support.Root, "tests", "dotnet", "WitRpc.Native.Tests", "ResiliencePage.cs"));
        string[] pieces = [.. Regex.Matches(source, "// <page>\n(.*?)\n// </page>", RegexOptions.Singleline).Select(m => m.Groups[1].Value)];
        Assert.Equal(8, pieces.Length);
        Assert.All(pieces, piece => Assert.Contains(piece, text));
        // And none of its code is missing here: what ends a statement or opens a block.
        foreach (string line in text.Split('\n').Where(l => Regex.IsMatch(l, @"^\s*(options|reconnect|retry|r|builder|case|switch|var)\b.*[;{(>)]|^\}\);")))
        {
            Assert.Contains(line, source);
        }
    }

    [Fact]
    public async Task TheDefaultsAndEachPieceAreAccepted()
    {
        await using (WitClient client = ResiliencePage.Default())
        {
            Assert.Equal("Disconnected", ResiliencePage.State(client));
            await ResiliencePage.Stop(client);
        }
        await using (WitClient client = ResiliencePage.Together("token"))
        {
            Assert.Equal("Disconnected", ResiliencePage.State(client));
        }
        var defaults = new ReconnectOptions();
        Assert.Equal((10, 1.0, 120.0, 2.0, true), (defaults.MaxAttempts, defaults.InitialDelay.TotalSeconds, defaults.MaxDelay.TotalSeconds, defaults.BackoffMultiplier, defaults.ReconnectOnDisconnect));
        var retry = new RetryOptions();
        Assert.Equal((3, 500.0, 30.0, BackoffType.Exponential), (retry.MaxRetries, retry.InitialDelay.TotalMilliseconds, retry.MaxDelay.TotalSeconds, retry.BackoffType));
        Assert.Equal([CommunicationStatus.Timeout, CommunicationStatus.TransportError], retry.RetryableStatuses.Order());
    }

    [Fact]
    public void WhatThePageNamesInItsTextIsThere()
    {
        Assert.Throws<InvalidOperationException>(() => WitClientBuilder.Build(ResiliencePage.Named)); // it names no server, all else compiled
        var retry = new RetryOptions();
        ResiliencePage.Named(retry);
        Assert.True(retry.RetryAllMethods);
        Assert.Contains(CommunicationStatus.InternalServerError, retry.RetryableStatuses);
        Assert.Equal([typeof(TimeoutException)], retry.RetryableExceptionTypes);
        Assert.NotNull(retry.OnRetry);
    }

    [Fact]
    public async Task ReconnectsAndSaysSoAndStops()
    {
        int port = Support.FreePort();
        using var output = new StringWriter();
        TextWriter console = Console.Out;
        Console.SetOut(TextWriter.Synchronized(output));
        try
        {
            await using WitClient client = WitClientBuilder.Build(options =>
            {
                options.WithTcp("127.0.0.1", port);
                ResiliencePage.Configured(options);
                ResiliencePage.Callbacks(options);
                ResiliencePage.Retries(options);
            });
            (OtherProcess server, _) = await OtherProcess.DemoAsync($"tcp://127.0.0.1:{port}");
            await client.ConnectAsync().InTime();
            Assert.Equal("Connected", ResiliencePage.State(client));
            await server.DisposeAsync();
            await client.WaitForStateAsync(ReconnectionState.Reconnecting).InTime();
            (server, _) = await OtherProcess.DemoAsync($"tcp://127.0.0.1:{port}");
            await using (server)
            {
                await client.WaitForStateAsync(ReconnectionState.Connected).InTime();
                await Support.Until(() => output.ToString().Contains("Reconnected."), "it is said");
                Assert.StartsWith("Reconnection attempt 1, waiting 00:00:01...", output.ToString());
            }
            await client.WaitForStateAsync(ReconnectionState.Reconnecting).InTime();
            await ResiliencePage.Stop(client);
            await client.WaitForStateAsync(ReconnectionState.Disconnected).InTime();
            Assert.DoesNotContain("Reconnection failed", output.ToString());
        }
        finally
        {
            Console.SetOut(console);
        }
    }

    [Fact]
    public async Task AttemptsThatAreUsedUpAreToldWithTheLastException()
    {
        using var output = new StringWriter();
        TextWriter console = Console.Out;
        Console.SetOut(TextWriter.Synchronized(output));
        try
        {
            (OtherProcess server, string endpoint) = await OtherProcess.DemoAsync("tcp://127.0.0.1:0");
            await using WitClient client = WitClientBuilder.Build(options =>
            {
                options.WithEndpoint(endpoint);
                ResiliencePage.Callbacks(options);
                options.WithAutoReconnect(r => (r.MaxAttempts, r.InitialDelay) = (1, TimeSpan.FromMilliseconds(10)));
            });
            await client.ConnectAsync().InTime();
            await server.DisposeAsync();
            await client.WaitForStateAsync(ReconnectionState.Failed).InTime();
            await Support.Until(() => Regex.IsMatch(output.ToString(), "Reconnection failed: .+"), "it is said");
            Assert.Equal("Failed", ResiliencePage.State(client));
        }
        finally
        {
            Console.SetOut(console);
        }
    }

    [Fact]
    public async Task TheRetryPolicyIsInertUntilMethodsAreDeclaredAndThenRunsACallOnce()
    {
        foreach (bool isDeclared in (bool[])[false, true])
        {
            (OtherProcess server, string endpoint) = await OtherProcess.DemoAsync("tcp://127.0.0.1:0", "--close-after", "1");
            await using (server)
            {
                int retries = 0;
                await using WitClient client = WitClientBuilder.Build(options =>
                {
                    options.WithEndpoint(endpoint);
                    options.WithAutoReconnect(r => r.InitialDelay = TimeSpan.FromMilliseconds(20));
                    ResiliencePage.Retries(options);
                    options.WithRetryPolicy(r =>
                    {
                        r.InitialDelay = TimeSpan.FromMilliseconds(20);
                        r.OnRetry = (_, _, _) => retries++;
                        if (isDeclared)
                        {
                            r.MarkIdempotent(nameof(IEcho.CountUp));
                        }
                    });
                });
                await client.ConnectAsync().InTime();
                IEcho echo = client.GetService<IEcho>();
                if (isDeclared)
                {
                    Assert.Equal(1, echo.CountUp(1));
                    await Support.Until(() => retries == 1, "the retry is told");
                }
                else
                {
                    Assert.Equal(WitErrorCode.Transport, Assert.Throws<WitRpcException>(() => echo.CountUp(1)).Code);
                    Assert.Equal(0, retries);
                }
                Assert.Equal(1, echo.Count());
            }
        }
    }

    [Fact]
    public async Task TheHealthCheckFindsTheClientByItsName()
    {
        var builder = new ResiliencePage.Builder();
        builder.Services.AddWitRpcClient("MainClient", options => options.WithTcp("127.0.0.1", Support.FreePort()), autoConnect: false);
        ResiliencePage.Health(builder);
        await using ServiceProvider provider = builder.Services.BuildServiceProvider();
        HealthReport report = await provider.GetRequiredService<HealthCheckService>().CheckHealthAsync();
        HealthReportEntry entry = Assert.Single(report.Entries).Value;
        Assert.Equal(HealthStatus.Unhealthy, entry.Status);
        Assert.Equal("MainClient", entry.Data["clientName"]);
    }
}
