using System.ComponentModel;
using System.Runtime.CompilerServices;

namespace WitRpc.Native;

/// <summary>
/// What the source generator made for an interface: its name in WitRPC, its proxy, its dispatcher. Registered by a module
/// initializer of the assembly that the code is in, so that nothing is looked up by reflection.
/// </summary>
/// <typeparam name="T">The interface.</typeparam>
[EditorBrowsable(EditorBrowsableState.Never)]
public sealed class WitContract<T> where T : class
{
    private static WitContract<T>? known;

    private readonly Func<WitProxyContext, T> createProxy;

    private WitContract(string name, Func<WitProxyContext, T> createProxy, Func<WitServiceDefinition<T>> define) =>
        (Name, this.createProxy, Define) = (name, createProxy, define);

    /// <summary>The contract's name, as "Demo.IEcho".</summary>
    public string Name { get; }

    internal Func<WitServiceDefinition<T>> Define { get; }

    /// <summary>Called by generated code. The first registration counts; all are the same.</summary>
    /// <param name="name">The contract's name.</param>
    /// <param name="createProxy">Makes a proxy.</param>
    /// <param name="define">Describes the service to a server.</param>
    public static void Register(string name, Func<WitProxyContext, T> createProxy, Func<WitServiceDefinition<T>> define) =>
        Interlocked.CompareExchange(ref known, new WitContract<T>(name, createProxy, define), null);

    internal static WitContract<T> Get()
    {
        if (known is null)
        {
            // The interface's own assembly, if it is marked there, may not have been entered yet.
            RuntimeHelpers.RunModuleConstructor(typeof(T).Module.ModuleHandle);
        }
        return known ?? throw new InvalidOperationException(!typeof(T).IsInterface
            ? $"{typeof(T)} is no interface: name the one that it implements, as in WithService<IEcho>(new Echo())"
            : $"no proxy was made for {typeof(T)} when the program was compiled: name the interface itself in GetService<T>() or WithService<T>(), or mark it with [WitContract], and reference the package WitRpc.Native from the project that does so");
    }

    internal T CreateProxy(WitProxyContext context) => createProxy(context);
}

/// <summary>What a proxy stands on.</summary>
/// <param name="service">The service.</param>
/// <param name="options">What is special about the proxy's calls.</param>
[EditorBrowsable(EditorBrowsableState.Never)]
public sealed class WitProxyContext(WitService service, WitCallOptions? options)
{
    /// <summary>Begins a call.</summary>
    /// <param name="method">The method.</param>
    /// <returns>The call.</returns>
    public WitCall Call(WitMethod method) => service.Call(method, options);

    /// <summary>Begins a call of a generic method.</summary>
    /// <param name="method">The method.</param>
    /// <param name="arguments">Its type arguments.</param>
    /// <returns>The call.</returns>
    public WitCall Call(WitGenericMethod method, params Type[] arguments)
    {
        (WitMethod closed, string? contractJson) = method.Close(arguments);
        WitService target = contractJson is null ? service : service.Client.ServiceOf(service.Contract, contractJson);
        return target.Call(closed, options);
    }

    /// <summary>Makes an event of the proxy.</summary>
    /// <typeparam name="THandler">Type of the event's handlers.</typeparam>
    /// <param name="line">The event's line.</param>
    /// <param name="invoke">Reads the arguments and calls a handler.</param>
    /// <returns>The event.</returns>
    public WitProxyEvent<THandler> Event<THandler>(string line, Action<THandler, WitEventArguments> invoke) where THandler : Delegate => new(service, line, invoke);
}

/// <summary>An event of a proxy: subscribed to as long as it has handlers.</summary>
/// <typeparam name="THandler">Type of the handlers.</typeparam>
[EditorBrowsable(EditorBrowsableState.Never)]
public sealed class WitProxyEvent<THandler> where THandler : Delegate
{
    private readonly Lock gate = new();
    private readonly WitService service;
    private readonly string line;
    private readonly Action<THandler, WitEventArguments> invoke;
    private THandler[] handlers = [];
    private WitSubscription? subscription;

    internal WitProxyEvent(WitService service, string line, Action<THandler, WitEventArguments> invoke) => (this.service, this.line, this.invoke) = (service, line, invoke);

    /// <summary>Adds a handler.</summary>
    /// <param name="handler">The handler.</param>
    public void Add(THandler? handler)
    {
        if (handler is null)
        {
            return;
        }
        lock (gate)
        {
            subscription ??= WitSubscription.Create(service, line, Deliver);
            handlers = [.. handlers, handler];
        }
    }

    /// <summary>Removes a handler that was added.</summary>
    /// <param name="handler">The handler.</param>
    public void Remove(THandler? handler)
    {
        lock (gate)
        {
            int index = Array.LastIndexOf(handlers, handler);
            if (index < 0)
            {
                return;
            }
            handlers = [.. handlers[..index], .. handlers[(index + 1)..]];
            if (handlers.Length == 0)
            {
                subscription?.Dispose();
                subscription = null;
            }
        }
    }

    /// <summary>A handler that throws keeps no other one from being called.</summary>
    private void Deliver(WitEventArguments arguments)
    {
        foreach (THandler handler in handlers)
        {
            try
            {
                invoke(handler, arguments);
            }
            catch (WitRpcException e) when (e.Code == WitErrorCode.BadResult)
            {
                Log.EventUnreadable(service.Client.Logger, e, line);
                return;
            }
            catch (Exception e)
            {
                Log.CallbackFailed(service.Client.Logger, e, line);
            }
        }
    }
}
