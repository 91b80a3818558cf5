using Microsoft.Extensions.Logging;

namespace WitRpc.Native;

/// <summary>
/// Where user code runs: on the thread pool, one after the other, in the order of posting. The native library's threads only
/// post, so that user code can block, also on results that those threads deliver.
/// </summary>
internal sealed class SerialQueue(ILogger logger) : IThreadPoolWorkItem
{
    private readonly Queue<(Action Run, string Name)> items = new();
    private bool isRunning;
    private bool isClosed;

    internal void Post(string name, Action run)
    {
        lock (items)
        {
            if (isClosed)
            {
                return;
            }
            items.Enqueue((run, name));
            if (isRunning)
            {
                return;
            }
            isRunning = true;
        }
        ThreadPool.UnsafeQueueUserWorkItem(this, preferLocal: false);
    }

    /// <summary>Nothing begins any more; what runs goes on.</summary>
    internal void Close()
    {
        lock (items)
        {
            isClosed = true;
            items.Clear();
        }
    }

    void IThreadPoolWorkItem.Execute()
    {
        while (true)
        {
            (Action Run, string Name) item;
            lock (items)
            {
                if (!items.TryDequeue(out item))
                {
                    isRunning = false;
                    return;
                }
            }
            try
            {
                item.Run();
            }
            catch (Exception e)
            {
                Log.CallbackFailed(logger, e, item.Name);
            }
        }
    }
}
