import {
  to = rabbitmq_retry_tiers.standard
  identity = {
    vhost = "/"
    name  = "standard"
  }
}
