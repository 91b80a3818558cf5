using System.Buffers;
using ProtoBuf;
using ProtoBuf.Meta;

namespace WitRpc.Native;

/// <summary>
/// protobuf-net, as WitRPC uses it. What the format can't hold is an error here, where a .NET peer sends a null: a null
/// within a list, and a value declared as <c>object</c>.
/// </summary>
internal sealed class ProtoBufCodec : WitCodec
{
    private static readonly RuntimeTypeModel Model = CreateModel();

    public override int NativeNumber => 3;

    public override void Write<T>(IBufferWriter<byte> output, T value)
    {
        Check(typeof(T));
        Model.Serialize(output, value);
    }

    public override T? Read<T>(ReadOnlySpan<byte> bytes) where T : default
    {
        Check(typeof(T));
        return (T?)Model.Deserialize(typeof(T), bytes);
    }

    private static void Check(Type declared)
    {
        if (declared == typeof(object))
        {
            throw new NotSupportedException("protobuf can not hold an object: declare its type");
        }
    }

    private static RuntimeTypeModel CreateModel()
    {
        var model = RuntimeTypeModel.Create();
        model.Add(typeof(DateTimeOffset), applyDefaultBehaviour: false).SetSurrogate(typeof(DateTimeOffsetSurrogate));
        return model;
    }

    /// <summary>Unix milliseconds: the offset, and anything finer, are lost. So it is in WitRPC.</summary>
    [ProtoContract]
    internal struct DateTimeOffsetSurrogate
    {
        [ProtoMember(1)]
        public long Milliseconds { get; set; }

        public static implicit operator DateTimeOffsetSurrogate(DateTimeOffset value) => new() { Milliseconds = value.ToUnixTimeMilliseconds() };

        public static implicit operator DateTimeOffset(DateTimeOffsetSurrogate value) => DateTimeOffset.FromUnixTimeMilliseconds(value.Milliseconds);
    }
}

/// <summary>Chooses protobuf-net for clients and servers.</summary>
public static class WitProtoBufExtensions
{
    private static readonly ProtoBufCodec Codec = new();

    /// <summary>Arguments and results travel as protobuf-net writes them. The server must be set alike.</summary>
    /// <param name="options">The options.</param>
    /// <returns>The same.</returns>
    public static WitClientBuilderOptions WithProtoBuf(this WitClientBuilderOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        return options.WithParametersSerializer(Codec);
    }

    /// <summary>Arguments and results travel as protobuf-net writes them. Clients must be set alike.</summary>
    /// <param name="options">The options.</param>
    /// <returns>The same.</returns>
    public static WitServerBuilderOptions WithProtoBuf(this WitServerBuilderOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        return options.WithParametersSerializer(Codec);
    }
}
