import {
  to = rabbitmq_retry_tiers.standard
  id = "standard@/"
}
