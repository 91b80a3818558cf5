using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>
/// A subscription to an event. The client keeps it alive; the native side only knows a small object that knows this one
/// weakly, so that a client that nobody holds any more is collected with its subscriptions.
/// </summary>
public sealed unsafe class WitSubscription : IDisposable
{
    /// <summary>Events that wait for a slow handler; beyond it the oldest ones go.</summary>
    private const int MaxWaiting = 1024;

    private readonly WitClient client;
    private readonly string line;
    private readonly Action<WitEventArguments> handler;
    private readonly Queue<byte[][]> waiting = new();
    private SubscriptionHandle? handle;
    private long dropped;
    private bool isDisposed;

    private WitSubscription(WitClient client, string line, Action<WitEventArguments> handler) => (this.client, this.line, this.handler) = (client, line, handler);

    /// <summary>Events that were dropped because handlers were too slow.</summary>
    public long Dropped
    {
        get
        {
            long native = handle is { IsClosed: false } open ? (long)NativeMethods.witrpc_subscription_dropped(open) : 0;
            return Interlocked.Read(ref dropped) + native;
        }
    }

    internal static WitSubscription Create(WitService service, string line, Action<WitEventArguments> handler)
    {
        var subscription = new WitSubscription(service.Client, line, handler);
        service.Client.Keep(subscription);
        byte[] utf8 = NativeText.Utf8(line);
        try
        {
            using WitHandle.Held held = service.Handle.Hold();
            fixed (byte* p = utf8)
            {
                // Failing, the function calls destroy all the same.
                nint userData = UserData.Alloc(new Sink(subscription));
                int status = NativeMethods.witrpc_service_subscribe_encoded(service.Handle, p, (nuint)utf8.Length, &OnEvent, userData, UserData.Destroy, out nint value, out nint error);
                WitRpcException.ThrowIfFailed(status, error);
                subscription.Open(new SubscriptionHandle(value));
            }
        }
        catch
        {
            service.Client.Forget(subscription);
            throw;
        }
        return subscription;
    }

    /// <summary>Ends the subscription: no event is delivered that has not begun to be. From the handler too.</summary>
    public void Dispose()
    {
        lock (waiting)
        {
            isDisposed = true;
            waiting.Clear();
        }
        Volatile.Read(ref handle)?.Dispose();
        client.Forget(this);
    }

    /// <summary>The client may have been disposed meanwhile.</summary>
    private void Open(SubscriptionHandle opened)
    {
        lock (waiting)
        {
            handle = opened;
            if (!isDisposed)
            {
                return;
            }
        }
        opened.Dispose();
    }

    private void Enqueue(byte[][] arguments)
    {
        bool post = true;
        lock (waiting)
        {
            if (isDisposed)
            {
                return;
            }
            if (waiting.Count == MaxWaiting)
            {
                waiting.Dequeue();
                if (Interlocked.Increment(ref dropped) == 1)
                {
                    Log.EventsDropped(client.Logger, line);
                }
                post = false; // the one that was dropped has its turn posted already
            }
            waiting.Enqueue(arguments);
        }
        if (post)
        {
            client.Queue.Post(line, Deliver);
        }
    }

    private void Deliver()
    {
        byte[][]? arguments;
        lock (waiting)
        {
            if (!waiting.TryDequeue(out arguments))
            {
                return;
            }
        }
        handler(new WitEventArguments(client.Codec, arguments, line));
    }

    [UnmanagedCallersOnly(CallConvs = [typeof(CallConvCdecl)])]
    private static void OnEvent(void* userData, NativeBytes* arguments, nuint count)
    {
        if (!UserData.Get<Sink>(userData).Target.TryGetTarget(out WitSubscription? subscription))
        {
            return;
        }
        var copies = new byte[(int)count][];
        for (int i = 0; i < copies.Length; i++)
        {
            copies[i] = arguments[i].Span.ToArray();
        }
        subscription.Enqueue(copies);
    }

    private sealed class Sink(WitSubscription target)
    {
        internal WeakReference<WitSubscription> Target { get; } = new(target);
    }
}

/// <summary>The arguments of an event that happened.</summary>
public sealed class WitEventArguments
{
    private readonly WitCodec codec;
    private readonly byte[][] blobs;
    private readonly string line;

    internal WitEventArguments(WitCodec codec, byte[][] blobs, string line) => (this.codec, this.blobs, this.line) = (codec, blobs, line);

    /// <summary>How many there are.</summary>
    public int Count => blobs.Length;

    /// <summary>Reads an argument; null, or the type's default, if it is missing or null.</summary>
    /// <typeparam name="T">The argument's declared type.</typeparam>
    /// <param name="index">Which one, from 0.</param>
    /// <returns>The value.</returns>
    public T Get<T>(int index)
    {
        if (index >= blobs.Length || blobs[index].Length == 0)
        {
            return default!;
        }
        try
        {
            return codec.Read<T>(blobs[index])!;
        }
        catch (Exception e)
        {
            throw new WitRpcException(WitErrorCode.BadResult, $"argument {index + 1} of {line} is no {typeof(T)}", e.Message, CallOutcome.Answered, cause: new InvalidDataException(e.Message, e));
        }
    }
}
