resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  delays = ["5s", "30s", "5m"]
}

# terraform output -raw diagram > orders.mermaid
output "diagram" {
  value = provider::rabbitmq::topology_diagram(rabbitmq_retry_chain.orders.topology)
}
