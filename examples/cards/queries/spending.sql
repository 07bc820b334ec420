SELECT category, sum(amount) AS spent, count(*) AS payments FROM Payments
WHERE holder = 3 AND paid_at >= '2024-01-05' AND paid_at < '2024-01-15' GROUP BY category ORDER BY spent DESC
