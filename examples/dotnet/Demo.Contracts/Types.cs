using MemoryPack;
using MessagePack;
using ProtoBuf;

namespace Demo;

public enum Color
{
    Red = 0,
    Green = 1,
    Blue = 7,
}

[MemoryPackable, MessagePackObject, ProtoContract]
public partial class Address
{
    [Key(0), ProtoMember(1)]
    public string? Street { get; set; }

    [Key(1), ProtoMember(2)]
    public int Zip { get; set; }
}

[MemoryPackable, MessagePackObject, ProtoContract]
public partial class Person
{
    [Key(0), ProtoMember(1)]
    public string? Name { get; set; }

    [Key(1), ProtoMember(2)]
    public int Age { get; set; }

    [Key(2), ProtoMember(3)]
    public Color Favourite { get; set; }

    [Key(3), ProtoMember(4)]
    public Address? Home { get; set; }

    [Key(4), ProtoMember(5)]
    public List<string>? Tags { get; set; }

    [Key(5), ProtoMember(6)]
    public Dictionary<string, int>? Scores { get; set; }

    [Key(6), ProtoMember(7)]
    public byte[]? Photo { get; set; }

    [Key(7), ProtoMember(8)]
    public DateTime Born { get; set; }

    [Key(8), ProtoMember(9)]
    public double? Height { get; set; }
}

public class ProgressArgs : EventArgs
{
    public int Percent { get; set; }

    public string? Note { get; set; }
}
