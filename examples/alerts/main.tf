# Prometheus alerts for the retry chains of a configuration:
#
#   terraform apply
#   terraform output -raw rules > /etc/prometheus/rules/retries.yml
#
# prometheus.yml shows how RabbitMQ is scraped, and dashboard.json is a dashboard
# for Grafana that needs the same metrics.

terraform {
  required_providers {
    rabbitmq = {
      source = "retrychain/rabbitmq"
    }
  }
}

variable "vhost" {
  type    = string
  default = "/"
}

resource "rabbitmq_retry_chain" "all" {
  for_each = {
    billing = ["1m", "10m", "1h"]
    orders  = ["5s", "30s", "5m"]
  }

  vhost  = var.vhost
  name   = each.key
  delays = each.value
}

output "rules" {
  value = provider::rabbitmq::prometheus_alerts(values(rabbitmq_retry_chain.all), {
    matchers = "job=\"rabbitmq\""
    age      = "12h"
  })
}
