/* How the torture test makes a live handle of each kind; taken in after the pools. What only a
 * handler, a validator or a token provider is given comes from those. */

static void never_done_with(void *u, int32_t s, const witrpc_buffer *r, const witrpc_error *e) {
  (void)u, (void)s, (void)r, (void)e;
}
static void never_event(void *u, const witrpc_buffer *a) { (void)u, (void)a; }
static void keep_request(void *u, witrpc_request *request) {
  (void)u;
  keep_witrpc_request(request);
}
static void keep_check(void *u, witrpc_check *check) {
  (void)u;
  keep_witrpc_check(check);
}
static void keep_token(void *u, witrpc_token *token) {
  (void)u;
  keep_witrpc_token(token);
}

MAKE(witrpc_client_options, witrpc_client_options_new(endpoint, &made, NULL))
MAKE(witrpc_client, {
  witrpc_client_options *options = NULL;
  witrpc_client_options_new(endpoint, &options, NULL);
  witrpc_client_options_attempt_timeout_ms(options, 5);
  witrpc_client_options_connect_timeout_ms(options, 500);
  witrpc_client_new(options, &made, NULL);
  witrpc_client_options_free(options);
  if (flip()) witrpc_client_connect(made, NULL);
  if (rarely()) witrpc_client_close(made);
})
MAKE(witrpc_service, {
  witrpc_client *client = make_witrpc_client();
  witrpc_client_connect(client, NULL);
  witrpc_client_service(client, "Demo.ITest", &made, NULL);
})
MAKE(witrpc_call, witrpc_service_start(make_witrpc_service(), "int Hold()", "[]", NULL,
                                       never_done_with, NULL, NULL, &made, NULL))
MAKE(witrpc_call_options, witrpc_call_options_new(&made))
MAKE(witrpc_contract, witrpc_contract_from_json("{\"contract\":\"Demo.IX\"}", &made, NULL))
MAKE(witrpc_error, witrpc_client_options_new(NULL, &(witrpc_client_options *){ NULL }, &made))
MAKE(witrpc_buffer, witrpc_server_endpoint(server, 0, &made))
MAKE(witrpc_implementation, {
  witrpc_implementation_new("Demo.IX", &made, NULL);
  witrpc_implementation_handle(made, "int Add(int a, int b)", keep_request, NULL, NULL, NULL);
})
MAKE(witrpc_server_options, {
  witrpc_server_options_new("tcp://127.0.0.1:0", &made, NULL);
  witrpc_server_options_serve(made, make_witrpc_implementation());
})
MAKE(witrpc_server, witrpc_server_start(make_witrpc_server_options(), &made, NULL))
MAKE(witrpc_loop, witrpc_loop_new(&made, NULL))
MAKE(witrpc_subscription,
     witrpc_service_subscribe(make_witrpc_service(), "event Action<int> Progress", never_event,
                              NULL, NULL, &made, NULL))

/* A client and a server of its own whose callbacks keep what they are given. */
static void give_rise(void) {
  witrpc_implementation *implementation = make_witrpc_implementation();
  witrpc_server_options *options = NULL;
  witrpc_server *own = NULL;
  witrpc_buffer *where = NULL;
  witrpc_client_options *client_options = NULL;
  witrpc_client *client = NULL;
  witrpc_server_options_new("tcp://127.0.0.1:0", &options, NULL);
  witrpc_server_options_serve(options, implementation);
  witrpc_server_options_validator_async(options, keep_check, NULL, NULL);
  if (witrpc_server_start(options, &own, NULL) == WITRPC_OK) {
    witrpc_server_endpoint(own, 0, &where);
    for (int with_token = 0; with_token < 2; with_token++) {
      witrpc_client_options_new(witrpc_buffer_text(where), &client_options, NULL);
      witrpc_client_options_connect_timeout_ms(client_options, 20);
      if (with_token)
        witrpc_client_options_token_provider_async(client_options, keep_token, NULL, NULL);
      witrpc_client_new(client_options, &client, NULL);
      witrpc_client_connect(client, NULL);
      witrpc_client_free(client);
      witrpc_client_options_free(client_options);
    }
  }
  witrpc_buffer_free(where);
  witrpc_server_free(own);
  witrpc_server_options_free(options);
}

static witrpc_request *make_witrpc_request(void) {
  /* "Hold" of the fixture keeps the request that it was given last. */
  int before = counter_get(&holding);
  witrpc_service_start(make_witrpc_service(), "int Hold()", "[]", NULL, never_done_with, NULL, NULL,
                       NULL, NULL);
  for (int i = 0; i < 100 && counter_get(&holding) == before; i++) usleep(1000);
  witrpc_request *made = atomic_load(&held);
  keep_witrpc_request(made);
  return made;
}
static witrpc_check *make_witrpc_check(void) { return give_rise(), NULL; }
static witrpc_token *make_witrpc_token(void) { return give_rise(), NULL; }
