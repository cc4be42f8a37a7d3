resource "rabbitmq_retry_tiers" "standard" {
  name   = "standard"
  delays = ["5s", "30s", "5m"]
}

resource "rabbitmq_retry_attachment" "orders" {
  tiers     = rabbitmq_retry_tiers.standard.name
  queue     = "orders"
  on_detach = "park"
}
