using Demo;

namespace WitRpc.Native.Tests;

/// <summary>Generic methods on both sides: called with any type, served with those that the interface names.</summary>
public class GenericTests
{
    [Theory]
    [InlineData("Json")]
    [InlineData("MemoryPack")]
    [InlineData("MessagePack")]
    [InlineData("ProtoBuf")]
    public async Task ProxyAndServer(string name)
    {
        var format = Enum.Parse<Conversation.Format>(name);
        await using WitServer server = WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithService<IGeneric>(new Generic()).With(format));
        await server.StartAsync();
        await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]).With(format));
        await client.ConnectAsync().InTime();
        IGeneric proxy = client.GetService<IGeneric>();
        Assert.Equal(5, proxy.Echo(5));
        Assert.Equal("five", proxy.Echo("five"));
        if (format != Conversation.Format.ProtoBuf) // which has no nested lists
        {
            Assert.Equal([1, 2], proxy.Echo<List<int[]>>([[1, 2]])![0]);
        }
        Assert.Equal("Ann", proxy.Echo(new Person { Name = "Ann" })!.Name);
        Assert.Equal(Color.Blue, proxy.Echo(Color.Blue));
        Assert.Equal(7, proxy.Echo<int?>(7));
        Assert.Equal(["a", "a", "a"], await proxy.RepeatAsync("a", 3, CancellationToken.None).InTime());
        Assert.Equal(2, (await proxy.RepeatAsync(new Person { Age = 3 }, 2, default).InTime()).Count);
        Assert.Equal("System.String and Demo.Color", proxy.Describe(new Dictionary<string, List<Color>> { ["x"] = [Color.Red] }));
        await proxy.ForgetAsync(Guid.NewGuid());
    }

    [Fact]
    public async Task WhatIsNotServedIsRefusedAndSaysWhatIsMissing()
    {
        await using WitServer server = WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithService<IGeneric>(new Generic()));
        await server.StartAsync();
        await using WitClient client = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]));
        await client.ConnectAsync().InTime();
        IGeneric proxy = client.GetService<IGeneric>();
        var e = Assert.Throws<WitRpcException>(() => proxy.Echo(5L));
        Assert.Equal(WitErrorCode.BadRequest, e.Code);
        Assert.Contains("Echo<long> is not served", e.Message);
        Assert.Contains("[WitTypeArguments]", e.Message);
        e = Assert.Throws<WitRpcException>(() => proxy.Describe(new Dictionary<int, List<Outer<string>.Inner>>()));
        Assert.Contains("Describe<int, WitRpc.Native.Tests.GenericTests+Outer<string>+Inner> is not served", e.Message);
        Assert.Equal(4, proxy.Echo(4)); // the rest goes on
    }

    [Fact]
    public async Task MethodsAreFoundByNameAndWithStrongNamesOfTypes()
    {
        await using WitServer server = WitServerBuilder.Build(o => o.WithEndpoint("tcp://127.0.0.1:0").WithService<IDerived>(new Derived()));
        await server.StartAsync();
        await using WitClient byId = WitClientBuilder.Build(o => o.WithEndpoint(server.Endpoints[0]));
        await byId.ConnectAsync().InTime();
        Assert.Equal(WitErrorCode.BadRequest, Assert.Throws<WitRpcException>(() => byId.GetService<IRoot>().Root(1)).Code);
        foreach (WitMethodLookup lookup in (WitMethodLookup[])[WitMethodLookup.IdOrName, WitMethodLookup.Name])
        {
            await using WitClient client = WitClientBuilder.Build(o =>
            {
                o.WithEndpoint(server.Endpoints[0]);
                (o.MethodLookup, o.StrongTypeNames) = (lookup, lookup == WitMethodLookup.Name);
            });
            await client.ConnectAsync().InTime();
            Assert.Equal(2, client.GetService<IRoot>().Root(1));
            Assert.Equal(Color.Green, client.GetService<IDerived>().Same(Color.Green));
        }
    }

    [Fact]
    public void NamesOfTypesAreThoseOfTheLibrary()
    {
        Assert.Equal("System.Collections.Generic.Dictionary<System.String, System.Nullable<System.Int32>[][,]>", TypeNames.Line(typeof(Dictionary<string, int?[][,]>)));
        Assert.Equal("Dictionary<string, int?[][,]>", TypeNames.Short(typeof(Dictionary<string, int?[][,]>)));
        Assert.Equal("ValueTuple<int, Guid>", TypeNames.Short(typeof((int, Guid))));
        Assert.Equal("WitRpc.Native.Tests.GenericTests+Outer<System.Int32>+Inner", TypeNames.Line(typeof(Outer<int>.Inner)));
        var entries = new SortedDictionary<string, string>();
        TypeNames.Declare(typeof(List<Outer<Color>.Inner[]>), entries);
        Assert.Equal(
            [
                """{ "enum": "Demo.Color", "values": { "Red": 0, "Green": 1, "Blue": 7 }, "assembly": "Demo.Contracts" }""",
                """{ "class": "WitRpc.Native.Tests.GenericTests+Outer<T>+Inner", "assembly": "WitRpc.Native.Tests" }""",
            ],
            entries.Values);
    }

    public interface IGeneric
    {
        [WitTypeArguments(typeof(int))]
        [WitTypeArguments(typeof(string))]
        [WitTypeArguments(typeof(List<int[]>))]
        [WitTypeArguments(typeof(Person))]
        [WitTypeArguments(typeof(Color))]
        [WitTypeArguments(typeof(int?))]
        T? Echo<T>(T? value);

        [WitTypeArguments(typeof(string))]
        [WitTypeArguments(typeof(Person))]
        Task<List<T>> RepeatAsync<T>(T value, int times, CancellationToken cancellationToken) where T : class;

        [WitTypeArguments(typeof(string), typeof(Color))]
        string Describe<TKey, TValue>(Dictionary<TKey, List<TValue>> map) where TKey : notnull;

        [WitTypeArguments(typeof(Guid))]
        ValueTask ForgetAsync<T>(T value) where T : struct;
    }

    public interface IRoot
    {
        int Root(int value);
    }

    public interface IDerived : IRoot
    {
        [WitTypeArguments(typeof(Color))]
        T Same<T>(T value);
    }

    private sealed class Derived : IDerived
    {
        public int Root(int value) => value + 1;

        public T Same<T>(T value) => value;
    }

    public sealed class Outer<T>
    {
        public sealed class Inner
        {
            public T? Value { get; set; }
        }
    }

    private sealed class Generic : IGeneric
    {
        public T? Echo<T>(T? value) => value;

        public async Task<List<T>> RepeatAsync<T>(T value, int times, CancellationToken cancellationToken) where T : class
        {
            await Task.Yield();
            cancellationToken.ThrowIfCancellationRequested();
            return [.. Enumerable.Repeat(value, times)];
        }

        public string Describe<TKey, TValue>(Dictionary<TKey, List<TValue>> map) where TKey : notnull => $"{typeof(TKey)} and {typeof(TValue)}";

        public ValueTask ForgetAsync<T>(T value) where T : struct => ValueTask.CompletedTask;
    }
}
