using System.Collections.Concurrent;
using System.Collections.Frozen;
using Microsoft.Extensions.Logging;

namespace WitRpc.Native.DependencyInjection;

/// <summary>Gives the clients that were registered by name.</summary>
public interface IWitClientFactory
{
    /// <summary>The client of this name, made when it is first asked for. The container disposes it.</summary>
    /// <param name="name">The name that it was registered by.</param>
    /// <returns>The client; always the same.</returns>
    /// <exception cref="InvalidOperationException">There is no such name.</exception>
    WitClient GetClient(string name);

    /// <summary>The names.</summary>
    IReadOnlyCollection<string> Names { get; }
}

/// <summary>One name and the ways in which its options were set, in order.</summary>
internal sealed record WitClientRegistration(string Name, Action<IServiceProvider, WitClientBuilderOptions>? Configure, bool AutoConnect);

/// <summary>Makes clients, once each, and disposes them.</summary>
internal sealed class WitClientFactory(IServiceProvider services, IEnumerable<WitClientRegistration> registered) : IWitClientFactory, IAsyncDisposable, IDisposable
{
    private readonly FrozenDictionary<string, WitClientRegistration[]> registrations = registered
        .GroupBy(r => r.Name, StringComparer.Ordinal)
        .ToFrozenDictionary(g => g.Key, g => g.ToArray(), StringComparer.Ordinal);
    private readonly ConcurrentDictionary<string, Lazy<WitClient>> clients = new(StringComparer.Ordinal);

    public IReadOnlyCollection<string> Names => registrations.Keys;

    internal IEnumerable<string> AutoConnected => registrations.Where(r => Array.TrueForAll(r.Value, x => x.AutoConnect)).Select(r => r.Key);

    /// <summary>Those of these clients that were made; a client whose options are wrong never is.</summary>
    internal IEnumerable<WitClient> Made(IEnumerable<string> names) => names
        .Select(name => clients.GetValueOrDefault(name))
        .Where(client => client is { IsValueCreated: true })
        .Select(client => client!.Value);

    public WitClient GetClient(string name)
    {
        ArgumentNullException.ThrowIfNull(name);
        if (!registrations.TryGetValue(name, out WitClientRegistration[]? found))
        {
            string known = registrations.Count == 0 ? "none is registered" : "registered are " + string.Join(", ", registrations.Keys.Order(StringComparer.Ordinal));
            throw new InvalidOperationException($"there is no WitRPC client \"{name}\" ({known}): register it with services.AddWitRpcClient(\"{name}\", …)");
        }
        return clients.GetOrAdd(name, _ => new Lazy<WitClient>(() => Make(name, found))).Value;
    }

    public void Dispose()
    {
        foreach (Lazy<WitClient> client in clients.Values.Where(c => c.IsValueCreated))
        {
            client.Value.Dispose();
        }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (Lazy<WitClient> client in clients.Values.Where(c => c.IsValueCreated))
        {
            await client.Value.DisposeAsync().ConfigureAwait(false);
        }
    }

    private WitClient Make(string name, WitClientRegistration[] found) => WitClientBuilder.Build(options =>
    {
        if (services.GetService(typeof(ILoggerFactory)) is ILoggerFactory logging)
        {
            options.WithLogger(logging.CreateLogger($"{typeof(WitClient).FullName}.{name}"));
        }
        foreach (WitClientRegistration registration in found)
        {
            registration.Configure?.Invoke(services, options);
        }
    });
}
