resource "rabbitmq_retry_tiers" "standard" {
  name   = "standard"
  delays = ["5s", "30s", "5m"]
}
