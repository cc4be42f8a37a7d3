resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  delays = ["5s"]
}

locals {
  rules = provider::rabbitmq::prometheus_alerts([rabbitmq_retry_chain.orders], { severity = "page", growing = "30m" })
}

# terraform output -raw rules > /etc/prometheus/rules/retries.yml
output "rules" {
  value = local.rules
}

# [
#   "RabbitMQParkingNotEmpty",
#   "RabbitMQParkingGrowing",
#   "RabbitMQParkingNotEmptied",
#   "RabbitMQRetryTierStuck",
#   "RabbitMQDeadLettersBlocked",
#   "RabbitMQDeadLettersBlocked",
# ]
output "alerts" {
  value = yamldecode(local.rules).groups[0].rules[*].alert
}
