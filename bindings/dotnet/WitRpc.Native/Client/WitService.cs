using System.Collections.Concurrent;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>
/// One contract of the server that a client is connected to, for calls and events by their C# lines. Proxies stand on it.
/// </summary>
public sealed class WitService
{
    private readonly ServiceHandle handle;
    private readonly ConcurrentDictionary<string, WitMethod> methods = new(StringComparer.Ordinal);

    private WitService(WitClient client, string contract, ServiceHandle handle) => (Client, Contract, this.handle) = (client, contract, handle);

    /// <summary>The client behind it.</summary>
    public WitClient Client { get; }

    /// <summary>Name of the contract.</summary>
    public string Contract { get; }

    internal ServiceHandle Handle => handle;

    internal static WitService Create(WitClient client, string contract)
    {
        int status = NativeMethods.witrpc_client_service(client.Handle, NativeText.Checked(contract, nameof(contract)), out nint value, out nint error);
        WitRpcException.ThrowIfFailed(status, error);
        return new WitService(client, contract, new ServiceHandle(value));
    }

    internal static WitService Create(WitClient client, string contract, string contractJson)
    {
        int status = NativeMethods.witrpc_contract_from_json(contractJson, out nint described, out nint error);
        WitRpcException.ThrowIfFailed(status, error);
        try
        {
            status = NativeMethods.witrpc_client_service_of(client.Handle, described, out nint value, out error);
            WitRpcException.ThrowIfFailed(status, error);
            return new WitService(client, contract, new ServiceHandle(value));
        }
        finally
        {
            NativeMethods.witrpc_contract_free(described);
        }
    }

    internal void Close() => handle.Dispose();

    /// <summary>Begins a call: add its arguments in order, then invoke it.</summary>
    /// <param name="method">The line pasted from the C# interface, as "int Add(int a, int b)", with types that are not .NET's own written in full.</param>
    /// <param name="options">What is special about it.</param>
    /// <returns>The call, to be used by one thread and invoked once.</returns>
    public WitCall Call(string method, WitCallOptions? options = null) =>
        Call(methods.GetOrAdd(method, static line => new WitMethod(line)), options);

    /// <summary>Begins a call of a method whose line was prepared.</summary>
    /// <param name="method">The method.</param>
    /// <param name="options">What is special about it.</param>
    /// <returns>As above.</returns>
    public WitCall Call(WitMethod method, WitCallOptions? options = null) => WitCall.Begin(this, method, options);

    /// <summary>
    /// Calls <paramref name="handler"/> for each event, in order, on the thread pool. Up to 1,024 events wait for a slow
    /// handler, then the oldest ones are dropped and counted. What the handler throws is logged.
    /// </summary>
    /// <param name="event">Name or line of the event.</param>
    /// <param name="handler">Gets the arguments, to be read before it returns.</param>
    /// <returns>The subscription; it lasts until it or the client is disposed, over all reconnections.</returns>
    public WitSubscription Subscribe(string @event, Action<WitEventArguments> handler)
    {
        ArgumentException.ThrowIfNullOrEmpty(@event);
        ArgumentNullException.ThrowIfNull(handler);
        string line = @event.Contains(' ') ? @event : $"event Action {@event}"; // arguments are read by the handler's types
        return WitSubscription.Create(this, line, handler);
    }
}

/// <summary>A method line, prepared for many calls.</summary>
/// <param name="line">The line.</param>
public sealed class WitMethod(string line)
{
    /// <summary>The line.</summary>
    public string Line { get; } = line;

    internal byte[] Utf8 { get; } = NativeText.Utf8(line);

    /// <summary>The name of the method or parameter in messages.</summary>
    /// <returns>The line.</returns>
    public override string ToString() => Line;
}
