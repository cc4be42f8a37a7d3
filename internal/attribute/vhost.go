package attribute

// DefaultVHost ends the description of an attribute "vhost", of whatever kind of schema.
const DefaultVHost = " If it is not set, the provider's `vhost` applies. Default: `/`."
