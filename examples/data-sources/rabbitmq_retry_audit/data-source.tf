data "rabbitmq_retry_audit" "shop" {
  vhost            = "/"
  minimum_severity = "warning"
  ignore_rules     = ["deprecated_feature"]
}

output "ways_to_lose_a_message" {
  value = [for f in data.rabbitmq_retry_audit.shop.findings : "${f.severity}: ${f.object.kind} ${f.object.name}: ${f.message} ${f.fix}"]
}
